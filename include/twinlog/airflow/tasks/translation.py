"""The task of the Dag `translate_group`: find where a group would go on at the other side."""

from __future__ import annotations

from airflow.sdk import get_current_context

from twinlog.airflow import form
from twinlog.airflow.cycle import parse_time
from twinlog.airflow.tasks.frame import flow_of, opened_own, shown
from twinlog.airflow.xcom import shortened
from twinlog.errors import TerminalError, UsageError
from twinlog.jsonable import Json

DOC = """\
### Where a consumer group goes on

Translates the committed offsets of groups of a flow's source to its target, exactly, by the offset map. Changes
nothing. The result is the task's XCom and its log: per partition the next offset to read on either side, whether it
is exact, and how many records may be read again at most.

With the source out of reach, groups stand where their last checkpoints say.
"""


PARAMS = {
    "groups": form.names("Groups", "Names of consumer groups, as they are."),
    "pattern": form.text("Pattern", "Or a Java regex that must match the whole name of a group.", "null"),
    "at": form.moment(
        "At",
        "Where they stood at a time, as far as checkpoints are left; empty means now.",
        pattern=form.A_TIME,
    ),
}


def translate_group(flow_name: str) -> Json:
    """Translate the positions of groups, now or at a time.

    Raises UsageError if the form names no group, or for a text that is no time, and TerminalError if an offset has no
    translation.  The result is an XCom in that case too, with the reason beside it.
    """
    from twinlog.client.group_positions import Groups
    from twinlog.client.translator import translate_groups

    context = get_current_context()
    params = context["params"]
    groups = Groups(tuple(params["groups"] or ()), params["pattern"] or "")
    if not groups:
        raise UsageError("the form names no group", "give Groups, or a Pattern")
    at_ms, flow = _time(params["at"]), flow_of(flow_name)
    with opened_own(flow) as clusters:
        found = translate_groups(flow, clusters, groups, at_ms)
    document = shortened(shown(found), "`twinlog translate`")
    if not found.complete:
        context["ti"].xcom_push("return_value", document)
        first = found.unanswered[0]
        raise TerminalError(
            f"{len(found.unanswered)} of {len(found.answers)} offsets have no translation; first: {first.message}",
            "see the task's XCom; `twinlog translate` shows all of them",
            code="untranslated",
        )
    return document


def _time(text: str | None) -> int | None:
    if not text:
        return None
    return round(parse_time("at", text).timestamp() * 1000)

"""The tasks of a metadata Dag: plan, and apply, unless a person is to do that by the command line."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk import Param, get_current_context

from twinlog import clock
from twinlog.airflow import form
from twinlog.airflow.tasks.frame import flow_of, opened_own
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import MOST_CHARACTERS, short, shortened
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.duties.plan import syncs_every
from twinlog.errors import ClusterRefused, TerminalError
from twinlog.jsonable import Json, to_json
from twinlog.metadata.subjects import Subject, intervals
from twinlog.visible import and_more, visible

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.metadata.sync import MetadataResult
    from twinlog.topics.plan import Refusal

log = logging.getLogger(__name__)

WHOLE = "`twinlog metadata plan --save FILE`"

BY_TURNS = frozenset({"scheduled", "backfill"})
"""Types of Dag runs whose data interval decides which subjects are due."""

MOST_LINES = 500
"""The most lines of a plan in a task's log."""

PARAMS = {
    "profile": Param(
        None,
        type=["null", "string"],
        enum=[None, *(profile.value for profile in Profile)],
        values_display={"null": "(as the file says)"},
        title="Profile",
        description="What the target is to be; empty means twinlog.metadata.profile of the flow.",
    ),
    "dry_run": form.dry_run("Say what would be changed, and change nothing."),
}


def plan(flow_name: str) -> Json:
    """Plan, and return the plan as it would be saved; skip the next task if there is nothing to change.

    Raises ClusterRefused if a part could not be planned and nothing else is to be done.
    """
    from twinlog.metadata.diff import plan_lines
    from twinlog.metadata.plan_file import plan_document
    from twinlog.metadata.sync import apply, make_plan

    context = get_current_context()
    with _open(flow_name) as (flow, clusters):
        _skip_when_not_standing_by(flow, clusters, by_form=bool(context["params"].get("profile")))
        found = make_plan(flow, clusters, _due(flow))
        _say(plan_lines(found))
        saved = plan_document(
            found, clusters.source.cluster_id(), clusters.target.cluster_id(), clock.now_ms()
        )
        if not found.changes and not context["params"].get("dry_run"):
            apply(flow, found, clusters.target)  # remembers what both sides agree on
    if not found.changes or context["params"].get("dry_run"):
        context["ti"].xcom_push("return_value", shortened(saved, WHOLE))
        _raise_refused(found.refused)
        raise AirflowSkipException("dry run" if found.changes else "nothing to change")
    if flow.metadata.approval:
        log.info(
            "%d changes wait for a person: `twinlog metadata plan --save FILE`, then apply that",
            len(found.changes),
        )
    return shortened(saved, WHOLE)


def apply(flow_name: str) -> Json:
    """Plan again and apply that plan.  Raises ClusterRefused if a change was refused: the rest is done."""
    from twinlog.metadata import sync

    with _open(flow_name) as (flow, clusters):
        return _finish(sync.run(flow, clusters, _due(flow)))


def schemas(flow_name: str) -> Json:
    """Bring subjects to the target's schema registry.  Raises TerminalError `schemas` if something is in the way."""
    from twinlog.schemas import sync

    context = get_current_context()
    with _open(flow_name) as (flow, clusters):
        _skip_when_not_standing_by(flow, clusters, by_form=False)
        found = sync.look(flow, clusters) if context["params"].get("dry_run") else sync.run(flow, clusters)
    for line in found.differences[:MOST_LINES]:
        log.info(visible(short(line, MOST_CHARACTERS)))
    document = shortened(to_json(found), "`twinlog metadata schemas`")
    context["ti"].xcom_push("return_value", document)
    if found.conflicts:
        first = found.conflicts[0]
        raise TerminalError(
            f"{first.subject}: {first.message}{and_more(len(found.conflicts))}; the other subjects are copied",
            "docs/schema-registry.md says what each code means",
            code="schemas",
            flow=flow_name,
        )
    return document


@contextmanager
def _open(flow_name: str) -> Iterator[tuple[FlowSettings, Clusters]]:
    from twinlog.metadata.apply_plan import with_profile

    flow = flow_of(flow_name)
    profile = get_current_context()["params"].get("profile")
    if profile:
        flow = with_profile(flow, Profile(profile))
    with opened_own(flow) as clusters:
        yield flow, clusters


def _due(flow: FlowSettings) -> frozenset[Subject]:
    run = get_current_context()["dag_run"]
    return due(flow, run.run_type.value, run.data_interval_start, run.data_interval_end)


def run_every(flow: FlowSettings) -> dt.timedelta | None:
    """Return the interval of the Dag: that of its most frequent subject, None if there is none.  Pure."""
    seconds = min(syncs_every(flow).values(), default=None)
    return None if seconds is None else dt.timedelta(seconds=seconds)


def due(
    flow: FlowSettings, run_type: str, start: dt.datetime | None, end: dt.datetime | None
) -> frozenset[Subject]:
    """Return what a run over [`start`, `end`) syncs: everything if started by hand, else the subjects that are due.

    A subject is due if its interval, counted from the epoch, ends within the run's.  A run by hand also has an
    interval, the one before the logical date in the trigger form; it is ignored.  Pure.
    """
    if run_type not in BY_TURNS or start is None or end is None or start == end:
        return frozenset(intervals(flow))
    first, last = start.timestamp(), end.timestamp()
    return frozenset(
        subject for subject, seconds in intervals(flow).items() if first // seconds != last // seconds
    )


def _skip_when_not_standing_by(flow: FlowSettings, clusters: Clusters, *, by_form: bool) -> None:
    """Skip a paused or failed-over flow, unless a profile was chosen for this very run."""
    from twinlog.formats.ledger.records import FlowPhase
    from twinlog.state.ledger import read_ledger

    phase = read_ledger(flow, clusters.target).phase
    if phase is not FlowPhase.ACTIVE and not by_form:
        raise AirflowSkipException(f"{flow.name} is {phase.value}: its metadata is left as it is")


def _finish(result: MetadataResult) -> Json:
    from twinlog.metadata.diff import result_lines

    _say(result_lines(result))
    document = shortened(result.document, "the log; `twinlog metadata plan` says what is left")
    get_current_context()["ti"].xcom_push("return_value", document)
    _raise_refused(result.refused)
    return document


def _say(lines: Iterator[tuple[str, str]]) -> None:
    texts = [visible(text) for _, text in lines]
    for text in texts[:MOST_LINES]:
        log.info(short(text, MOST_CHARACTERS))
    if len(texts) > MOST_LINES:
        log.info("and %d lines more: `twinlog metadata plan` shows all of them", len(texts) - MOST_LINES)


def _raise_refused(refused: tuple[Refusal, ...]) -> None:
    if refused:
        first = refused[0]
        what = f"{first.name}: {first.message}{and_more(len(refused))}; everything else is done"
        raise ClusterRefused(what, first.hint, code="metadata")

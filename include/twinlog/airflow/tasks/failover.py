"""The tasks before and after a failover: show what it would do to the person who approves it, and tell of its end."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param, get_current_context

from twinlog.airflow import form
from twinlog.airflow.assets import failed_over
from twinlog.airflow.flows import read_configuration
from twinlog.airflow.recovery import MODES, told_of
from twinlog.airflow.tasks.frame import flow_of, opened, shown
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import code_block, shortened, shortened_text
from twinlog.jsonable import Json
from twinlog.recovery.ways_home import flow_called
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.recovery.report import FailoverReport

log = logging.getLogger(__name__)

NOTE_KEY = "note"
"""The XCom of task `preview` that holds what a person is shown, as Markdown."""

WHOLE = "`twinlog failover --dry-run`"


def params(flow: FlowSettings) -> dict[str, Param]:
    """Return the fields of the form; a flow that only brings home is failed over without its source alone."""
    modes = MODES if flow.homes is None else MODES[1:]
    return {
        "mode": form.choice(
            modes[0],
            modes,
            "Mode",
            "planned: the source is alive and nothing is lost; source-dead: from the target alone.",
        ),
        "dry_run": form.dry_run(
            "Say what would be done, with the numbers of now; ask nobody, and change nothing."
        ),
    }


def preview(flow_name: str) -> Json:
    """Say what a failover would do now, and change nothing; a dry run ends here.

    Raises TerminalError `no-ledger` before the first cycle, `promoted` if nothing is left to do.
    """
    from twinlog.gate.suites.suites import Mode
    from twinlog.recovery import failover
    from twinlog.recovery.approved import last_ended
    from twinlog.recovery.report import at_risk
    from twinlog.state.ledger import read_ledger, require_ledger

    context = get_current_context()
    params = context["params"]
    flow = flow_of(flow_name)
    with opened(flow) as clusters:
        if flow.homes is None:
            require_ledger(flow, clusters.target)
        _require_something_to_do(flow, clusters)
        ledger = read_ledger(flow, clusters.target)
        found = failover.look(flow, clusters, failover.Request(Mode(params["mode"]), "", dry_run=True))
    push_note(context, note_lines(found), WHOLE)
    lost = at_risk(found.topics)
    document = {
        **found.document,
        "at_risk_records": lost.records,
        "known": lost.known,
        "last_ended": last_ended(ledger),
    }
    told = shortened(document, WHOLE)
    if params["dry_run"]:
        context["ti"].xcom_push("return_value", told)
        raise AirflowSkipException("dry run: nothing was changed")
    return told


def push_note(context: Any, lines: Iterable[str], whole_in: str) -> None:
    """Write to the log, and keep for the request of the approval, what a person has to know."""
    seen = [visible(line) for line in lines]
    for line in seen:
        log.info(line)
    context["ti"].xcom_push(NOTE_KEY, code_block(shortened_text(seen, whole_in).splitlines()))


def _require_something_to_do(flow: FlowSettings, clusters: Clusters) -> None:
    """Raise TerminalError `promoted` if the flow was failed over, and every step is done: nobody needs to be asked."""
    from twinlog import clock
    from twinlog.recovery import procedure, transitions
    from twinlog.state.ledger import read_ledger

    ledger = read_ledger(flow, clusters.target)
    if ledger.phase.out_of_service and transitions.open_run(ledger) is None:
        transitions.retake(flow.name, ledger, procedure.Actor("", ""), clock.now_ms())


def note_lines(found: FailoverReport) -> Iterator[str]:
    """Yield what a person has to know before a yes: the steps, what is lost, and what is read again.  Pure."""
    from twinlog.recovery.report import at_risk

    yield f"{found.flow}: failover, {found.mode.value}; the flow is {found.state.value} now"
    yield from (f"  {step.name.value}: {step.message}" for step in found.steps)
    waiting = sorted(
        (
            (part.known, topic.topic, part.partition, topic.remote_topic)
            for topic in found.topics
            for part in topic.partitions
            if part.known
        ),
        reverse=True,
    )
    lost = at_risk(found.topics)
    if (
        lost.unseen
        or not found.topics
        or any(it.upstream_end is not None for topic in found.topics for it in topic.partitions)
    ):
        yield lost.told("are not on the target now")
    yield from (f"  {count:,} of {topic}-{number}, copy {copy}" for count, topic, number, copy in waiting)
    if found.estimate:
        yield f"estimate: {found.estimate}"
    if found.rpo_seconds is not None:
        yield f"at most {found.rpo_seconds:,.0f} s of records are lost"
    again = [it for it in found.groups if it.again]
    unknown = sum(it.again is None for it in found.groups)
    yield f"groups: {len({it.group for it in found.groups}):,}, positions: {len(found.groups):,}"
    yield from (
        f"  {it.group} would read {it.again:,} records of {it.topic}-{it.partition} again" for it in again
    )
    yield from (
        f"  {it.group} would skip {it.skipped:,} records of {it.topic}-{it.partition}"
        for it in found.groups
        if it.skipped
    )
    if unknown:
        yield f"  how many records are read again is not known for {unknown:,} positions"


def report(flow_name: str, outlet_events: Any) -> Json:
    """Tell how it ended; if nothing was promoted, say why, and be skipped: no event is sent."""
    context = get_current_context()
    done = context["ti"].xcom_pull(task_ids="failover")
    told = told_of(context, done, f"nothing was promoted, and {flow_name} is as it was")
    flow = flow_called(read_configuration(), flow_name)
    outlet_events[failed_over(flow.state_alias, flow.target.alias)].extra = told
    return shown({**told, "next": done["next"]})

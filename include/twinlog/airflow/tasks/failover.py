"""The tasks of a failover that copy nothing: look, walk a step, ask with the facts, take back, and tell of the end."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from twinlog.airflow import form, recovery
from twinlog.airflow.assets import FAILED_OVER, failed_over
from twinlog.airflow.flows import read_configuration
from twinlog.airflow.recovery import MODES, told_of
from twinlog.airflow.tasks.frame import configured, flow_of, ledger_of, opened, opened_own, shown
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.words import in_airflow
from twinlog.airflow.xcom import escaped, shortened, table
from twinlog.errors import TerminalError, UsageError
from twinlog.jsonable import Json
from twinlog.recovery.ways_home import flow_called
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.recovery.report import FailbackReport, FailoverReport
    from twinlog.state.ledger import Ledger

log = logging.getLogger(__name__)

NOTE_KEY = "note"
"""The XCom that holds what a person is shown, as Markdown."""

WHOLE = "`twinlog failover --dry-run`"


PARAMS = {
    "mode": form.choice(
        MODES[0],
        (*MODES, recovery.TAKE_BACK, recovery.ACCEPT),
        "Mode",
        "planned: the source is alive and nothing is lost; source-dead: from the target alone; abort: take back what"
        " is under way, also a way home; accept: go on although the gate says no.",
    ),
    "reason": form.text("Reason", "Why you abort or accept; it is kept.", "null"),
    "seen": form.text(
        "Seen", "What you accept: the name that the gate's no has, up to its numbers, for 8 hours.", "null"
    ),
    "dry_run": form.dry_run(
        "Say what would be done, with the numbers of now; ask nobody, and change nothing."
    ),
}

IF_REJECTED = {
    recovery.IF_REJECTED: form.choice(
        recovery.ABORT,
        (recovery.ABORT, recovery.WAIT),
        "If you reject",
        "abort: all is as it was before; wait: it stays open, to be asked again.",
    )
}
"""The form of the question."""


def preview(flow_name: str) -> Json:
    """Say what a failover would do now, and change nothing; a dry run ends here, and one that aborts or accepts.

    Raises TerminalError `no-ledger` before the first cycle, `promoted` if nothing is left to do, and as `_decide`.
    """
    from twinlog.fact import if_known
    from twinlog.judge.check import Mode
    from twinlog.recovery import failover
    from twinlog.recovery.approved import last_ended
    from twinlog.recovery.report import at_risk
    from twinlog.recovery.steps.world import Request
    from twinlog.state.ledger import read_ledger, require_ledger

    context = get_current_context()
    params, run = context["params"], context["dag_run"]
    if params["mode"] in {recovery.TAKE_BACK, recovery.ACCEPT}:
        if not params["dry_run"]:
            _decide(flow_name, params, run)
        raise AirflowSkipException("nothing is failed over")
    flow = flow_of(flow_name)
    with opened(flow) as clusters:
        if flow.homes is None:
            require_ledger(flow, clusters.target)
        ledger = read_ledger(flow, clusters.target)
        _require_something_to_do(flow, ledger)
        recovery.refuse_beside(context, ledger)
        found = failover.run(flow, clusters, Request("", Mode(params["mode"]), dry_run=True))
    context["ti"].xcom_push(NOTE_KEY, note(replace(found, dry_run=params["dry_run"])))
    lost = at_risk(found.topics)
    document = {**found.document, "at_risk_records": if_known(lost.fact), "last_ended": last_ended(ledger)}
    told = shortened(document, WHOLE)
    if params["dry_run"]:
        context["ti"].xcom_push("return_value", told)
        raise AirflowSkipException("dry run: nothing was changed")
    return told


def _require_something_to_do(flow: FlowSettings, ledger: Ledger) -> None:
    """Raise TerminalError `promoted` if the flow was failed over, and every step is done: nobody needs to be asked."""
    from twinlog import clock
    from twinlog.recovery import procedure, transitions

    if ledger.phase.out_of_service and transitions.open_run(ledger) is None:
        transitions.retake(flow.name, ledger, procedure.Actor("", ""), clock.now_ms())


def note(found: FailoverReport | FailbackReport, *before: tuple[str, str]) -> str:
    """Return what a person has to know before a yes, as Markdown: the verdict, its numbers, then the steps.

    All of it is in the log, too: a table may be cut.
    """
    verdict = f"{found.flow} ({found.mode}): {found.headline}"
    numbers = [*before, *rows(found)]
    steps = [
        (step.name.value, in_airflow(step.message.partition(", such as kafka-")[0]))  # a command
        for step in found.steps
        if step.message and step.name != "approve"
    ]
    for name, text in [("in short", verdict), *numbers, *steps]:
        log.info("%s: %s", name, visible(text))
    whole = "all are in the task's log"
    return "\n\n".join([
        f"**{escaped(verdict)}**",
        table(numbers, whole),
        "Step by step:",
        table(steps, whole),
    ])


def rows(found: FailoverReport | FailbackReport) -> Iterator[tuple[str, str]]:
    """Yield what is missing, read again, and skipped.  Pure."""
    from twinlog.recovery.report import FailoverReport

    yield from _missing(found) if isinstance(found, FailoverReport) else _one_sided(found)
    yield from _groups(found) if found.groups else ()


def _groups(found: FailoverReport | FailbackReport) -> Iterator[tuple[str, str]]:
    """Yield what becomes of the groups' positions."""
    from twinlog.recovery.report import skips

    yield (
        "groups",
        f"{len({group.group for group in found.groups}):,} groups, {len(found.groups):,} positions",
    )
    yield from (
        ("read again", f"{group.group}: {group.again:,} records of {group.topic}-{group.partition}")
        for group in found.groups
        if group.again
    )
    if unknown := sum(group.again is None for group in found.groups):
        yield "read again", f"not known for {unknown:,} positions"
    unseen = sum(group.skipped is None for group in found.groups)
    blind = f", and of {unseen:,} positions it is not known" if unseen else ""
    yield "skipped", f"{skips(found.groups) or 'no group is known to skip a record'}{blind}"


def _missing(found: FailoverReport) -> Iterator[tuple[str, str]]:
    """Yield what is not on the target, the largest first, and what is estimated."""
    from twinlog.recovery.report import at_risk

    lost = at_risk(found.topics)
    parts = [(part, topic) for topic in found.topics for part in topic.partitions]
    if lost.doubt or not found.topics or any(it.upstream_end is not None for it, _ in parts):
        yield "missing", lost.told("are not on the target now")
    yield from _largest(
        "missing",
        ((it.known, f"{topic.topic}-{it.partition}, copy {topic.remote_topic}") for it, topic in parts),
    )
    if found.estimate:
        yield "estimate", found.estimate
    if found.rpo_seconds is not None:
        yield "lost", f"at most {math.ceil(found.rpo_seconds):,} s of records"


def _one_sided(found: FailbackReport) -> Iterator[tuple[str, str]]:
    """Yield what each side alone has, the largest first."""
    least = "at least " if found.only_on_source is None else ""
    strayed = f", of which no cycle brings {found.strayed:,} home" if found.strayed else ""
    parts = [(part, topic) for topic in found.topics for part in topic.partitions]
    for where, rows_of, besides in (
        (
            "on the source alone",
            [(it.at_risk_records or 0, f"{topic.topic}-{it.partition}") for it, topic in parts],
            "",
        ),
        (
            "on the target alone",
            [(it.only_on_target_records or 0, f"{topic.remote_topic}-{it.partition}") for it, topic in parts],
            strayed,
        ),
    ):
        if parts:
            yield where, f"{least}{sum(count for count, _ in rows_of):,} records{besides}"
        yield from _largest(where, rows_of)
    yield from (("see to it", note) for note in found.notes)


def _largest(name: str, counts: Iterable[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    yield from ((name, f"{count:,} of {place}") for count, place in sorted(counts, reverse=True) if count)


def walk(task: str, flow_name: str, answer: Json | None = None) -> FailoverReport | FailbackReport:
    """Do a task's part of a failover, or of the way home, in this process: nothing is copied.

    `answer` is the one to the question, for the task that notes it.

    Raises as `request_of`, and the error that the report amounts to, after it is kept.
    """
    from twinlog.config.flow.values import ALONE
    from twinlog.spark.steps import failover
    from twinlog.state.ledger import read_ledger

    context = get_current_context()
    configuration, flow = configured(flow_name)
    request = recovery.request_of(task, flow, context, answer)
    if task == "begin":
        with opened_own(flow) as clusters:
            recovery.refuse_beside(context, read_ledger(flow, clusters.target))
    found: FailoverReport | FailbackReport
    if request.step == "failover":
        found = failover.run(configuration, flow, request, ALONE, lambda _: None)
    else:
        found = failover.run_home(configuration, flow, request, ALONE, lambda _: None)
    if answer is None:
        context["ti"].xcom_push("return_value", shortened(found.document, recovery.WHOLE))
    if not request.rejected and (failure := recovery.unfinished(task, found.told)) is not None:
        raise failure
    return found


def walked(name: str, flow_name: str) -> None:
    """Do what `walk` does, which has kept its result; Airflow reserves the argument `task`."""
    walk(name, flow_name)


def ask(flow_name: str) -> None:
    """Ask the gate, and put all that is known together for the person who is to say yes."""
    from twinlog.recovery.report import FailoverReport, at_risk

    found, ti = walk("gate", flow_name), get_current_context()["ti"]
    ti.xcom_push(NOTE_KEY, note(found, ("a yes costs", found.cost), *_accepted(flow_of(flow_name))))
    known = {"known": at_risk(found.topics).least} if isinstance(found, FailoverReport) else {}
    ti.xcom_push(recovery.ASKED_KEY, {"cost": found.cost, **known})


def answered(flow_name: str, answer: Json) -> None:
    """Note in the ledger what a person has answered; a no to a mere save changes nothing, and is not noted.

    Raises as `walk`, above all `approval-expired` if a yes would cost something else now, and as `accept`.
    """
    from twinlog.gate.accepting import accept
    from twinlog.recovery.failback.failback import yes_to_save

    context = get_current_context()
    if context["params"].get("home", True):
        walk("approve", flow_name, answer)
    elif recovery.YES in answer["chosen_options"]:
        flow = flow_of(flow_name)
        by, driver = recovery.answered_by(answer), recovery.driver_of(context["dag_run"])
        with opened(flow) as clusters:
            accept(flow, clusters.target, [yes_to_save(by, driver)])


def _accepted(flow: FlowSettings) -> list[tuple[str, str]]:
    """Say who answers for what, since when, and why."""
    from twinlog import clock

    now = clock.now_ms()
    told = [
        f"{it.told}, by {it.by} at {clock.iso(it.at_ms)}: {it.reason}"
        for it in ledger_of(flow).accepted
        if it.counts(now)
    ]
    return [("accepted", it) for it in told or ["nothing"]]


def rejected(flow_name: str) -> Json:
    """After a no: take the failover, or the way home, back, or let it wait, as the person who said no has chosen.

    Raises as `_take_back`.
    """
    context = get_current_context()
    answer = context["ti"].xcom_pull(task_ids="approve")
    if not context["params"].get("home", True):
        raise AirflowSkipException("nothing was changed")
    if answer is None or recovery.NO not in answer["chosen_options"]:
        raise AirflowSkipException("nobody has said no")
    if (answer.get("params_input") or {}).get(recovery.IF_REJECTED) == recovery.WAIT:
        return {"flow": flow_name, "state": "waiting"}
    flow, driver = flow_of(flow_name), recovery.driver_of(context["dag_run"])
    said = (run.answered for run in reversed(ledger_of(flow).recoveries))
    by = next((it.by for it in said if it is not None and not it.yes and it.driver == driver), "")
    if not by:
        raise AirflowSkipException("nobody has said no, by the ledger")
    return _take_back(flow_name, by, "rejected in Airflow")


def _decide(flow_name: str, params: Json, run: Any) -> None:
    """Take back what is under way, or accept what a gate's answer showed.

    Raises UsageError without a reason, and as `_take_back`, `shown_as` and `accept`.
    """
    from twinlog import clock
    from twinlog.gate.accepting import Person, accept, all_of, shown_as
    from twinlog.recovery.approved import ACCEPTED_FOR_MS
    from twinlog.recovery.procedure import Actor

    by, driver, reason = recovery.who(run), recovery.driver_of(run), (params["reason"] or "").strip()
    if not reason:
        raise UsageError("this needs a reason", hint="trigger the Dag again, and fill Reason")
    if params["mode"] == recovery.TAKE_BACK:
        _take_back(flow_name, by, reason)
        return
    flow, person = flow_of(flow_name), Person(by, Actor(by, "", driver=driver).known_by)
    with opened(flow) as clusters:
        now_ms = clock.now_ms()
        shown_then = shown_as(flow, clusters.target, (params["seen"] or "").strip())
        given = all_of(shown_then, person, reason, now_ms + ACCEPTED_FOR_MS, now_ms)
        accept(flow, clusters.target, given)
    for it in given:
        log.info("accepted: %s", visible(it.told))


def _take_back(flow_name: str, by: str, reason: str) -> Json:
    """Take back the failover, or the way home, that is under way.

    Raises TerminalError `failover` if something could not be undone, and as `abort.run`.
    """
    from twinlog.recovery import abort
    from twinlog.recovery.reverse import opened_way_home

    configuration, flow = configured(flow_name)
    with opened(flow) as clusters, opened_way_home(configuration, flow) as reverse:
        ended = abort.run(flow, clusters, reverse, by=by, reason=reason)
    if ended.left:
        raise TerminalError(
            f"{ended.run} of {flow_name} was taken back, but {'; '.join(ended.left)}",
            "clear this task to try again",
            code="failover",
        )
    return shown(ended)


def undone(context: Any, stays: str) -> str:
    """Say where a flow stands after a no."""
    waits = (context["ti"].xcom_pull(task_ids="rejected") or {}).get("state") == "waiting"
    return (
        "it waits: clear `approve` to be asked again, where a no with `abort` takes it back"
        if waits
        else stays
    )


def report(flow_name: str, outlet_events: Any) -> Json:
    """Write the evidence, and tell of the end; if nothing was promoted, say why, and be skipped: no event is sent."""
    context = get_current_context()
    stays = undone(context, f"{flow_name} is as it was")
    told_of(context, context["ti"].xcom_pull(task_ids="promote"), f"nothing was promoted, and {stays}")
    done = walk("report", flow_name).document
    told = told_of(context, done, "")
    flow = flow_called(read_configuration(), flow_name)
    outlet_events[FAILED_OVER].add(failed_over(flow.state_alias, flow.target.alias), extra=told)
    return shown({**told, "next": done["next"]})

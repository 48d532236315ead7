"""Decide whether a flow breaks an RPO, and send the alarm to `twinlog.alert.url`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from twinlog.clock import is_due, seconds_since
from twinlog.config.file.providers import Secret, reveal
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.recovery import DrillRun, DrillState, last_proof
from twinlog.jsonable import Json
from twinlog.visible import first_few, for_chats, visible

if TYPE_CHECKING:  # A Dag file is parsed with this module, and without what reads a cluster.
    from twinlog.facts.undecided import UndecidedPartition
    from twinlog.monitoring.cycle_report import FlowReport, TopicReport

TIMEOUT_SECONDS = 10
TOPICS_NAMED = 10
DAY_MS = 86_400_000
FOLLOW_REPORTS_SECONDS = 60.0
"""How often a process that follows reports."""
REMINDER_MS = 3_600_000
"""After so long a fault that is still there is told again."""


def over(flow: FlowSettings, report: FlowReport | None, age_seconds: float) -> dict[str, str]:
    """Return what a report that is `age_seconds` old shows to be over budget, or that it is too old itself.  Pure."""
    if age_seconds > flow.strictest_rpo_seconds:
        return {"": f"no report for {age_seconds:.0f} s: what was written since is not known to be copied"}
    return {} if report is None else {**over_budget(flow, report.topics), **held_back(flow, report.undecided)}


def over_budget(flow: FlowSettings, topics: Iterable[TopicReport]) -> dict[str, str]:
    """Return a line for each topic that is over budget, by its name.  Pure."""
    return {
        topic.topic: f"{topic.topic}: a record waits for {topic.rpo_seconds:.0f} s, its RPO is {tier.rpo_seconds} s"
        for topic in topics
        if topic.rpo_seconds is not None
        and topic.rpo_seconds > (tier := flow.tier_of(topic.topic)).rpo_seconds
    }


def held_back(flow: FlowSettings, undecided: Iterable[UndecidedPartition]) -> dict[str, str]:
    """Describe records that an open transaction has held back for too long, or for an unknown time.  Pure."""
    return {
        f"{partition.topic}-{partition.partition}": visible(f"{partition.message}; {partition.hint}")
        for partition in undecided
        if partition.seconds is None or partition.seconds > flow.gate.undecided_seconds
    }


def news(faults: Mapping[str, str], told: Json, now_ms: int) -> tuple[tuple[str, ...], Json]:
    """Return the lines to tell now, and what is told then: `at_ms`, and the names of the `faults`.  Pure.

    Nothing is told again before REMINDER_MS have passed, unless there is one more fault; one that went away is
    forgotten.
    """
    if not faults:
        return (), {}
    if faults.keys() <= set(told.get("faults", ())) and now_ms - told["at_ms"] < REMINDER_MS:
        return (), {**told, "faults": sorted(faults)}
    lines = first_few(list(faults.values()), TOPICS_NAMED, "and {} topics or partitions more")
    return tuple(lines), {"at_ms": now_ms, "faults": sorted(faults)}


def stands_still(flow: FlowSettings, reported_ms: int, now_ms: int, *, followed: bool = False) -> bool:
    """Say whether a report has been due since that at `reported_ms`, and that for longer than the RPO.  Pure.

    A cycle is due by the schedule.  Who follows reports each minute, a Dag's run that does when the second after it
    takes over.
    """
    late_ms = now_ms - flow.strictest_rpo_seconds * 1000
    if followed or flow.continuous:
        every = FOLLOW_REPORTS_SECONDS if followed else flow.copy.longest_run_seconds
        return late_ms - reported_ms > every * 1000
    return is_due(flow.schedule, reported_ms, late_ms)


def failed_drill(drills: Iterable[DrillRun], since_ms: int, now_ms: int) -> list[str]:
    """Describe the newest drill that proved something, if it failed after `since_ms`, and not after `now_ms`.  Pure."""
    last = last_proof(drill for drill in drills if drill.at_ms <= now_ms)
    if last is None or last.state is DrillState.PASSED or last.at_ms <= since_ms:
        return []
    return [visible(f"drill {last.run} failed: {last.message}")]


def drill_overdue(flow: FlowSettings, drills: Sequence[DrillRun], since_ms: int, now_ms: int) -> list[str]:
    """Say that no drill has passed for longer than `twinlog.drill.age.seconds`: when that begins, and once a day.

    A moment to say it lies after `since_ms`, when this was asked last, and not after `now_ms`: so it is said once,
    whoever asks, and however often.  Pure.
    """
    most = flow.failover.drill_age_seconds
    if most is None:
        return []
    passed = (drill.at_ms for drill in drills if drill.state is DrillState.PASSED)
    passed_ms = max((at_ms for at_ms in passed if seconds_since(at_ms, now_ms) is not None), default=None)
    due_ms = (passed_ms or 0) + most * 1000
    if now_ms < due_ms or (now_ms - due_ms) // DAY_MS == (since_ms - due_ms) // DAY_MS:
        return []
    if passed_ms is None:
        return [f"no drill that the ledger knows has passed: twinlog.drill.age.seconds={most}"]
    age = (now_ms - passed_ms) // 1000
    return [f"no drill has passed for {age:,} s, longer than twinlog.drill.age.seconds={most}"]


def send(url: Secret, flow: str, text: str, run: str) -> str:
    """Post an alarm as JSON; return why the address did not take it, "" if it did.

    A name in the text calls nobody in a chat.  A redirect is not followed: it would become a GET without the alarm,
    whose page says 200.
    """
    import requests

    body = {"text": for_chats(f"twinlog {flow}: {text}"), "flow": flow, "run": run}
    try:
        answer = requests.post(reveal(url), json=body, timeout=TIMEOUT_SECONDS, allow_redirects=False)
        answer.raise_for_status()
        if answer.is_redirect:
            return (
                f"the alarm was not taken by twinlog.alert.url: it answers {answer.status_code}, a redirect"
            )
    except requests.RequestException as error:
        # The address itself may be a secret, and requests puts it into its messages.
        return f"the alarm was not taken by twinlog.alert.url: {type(error).__name__}"
    return ""

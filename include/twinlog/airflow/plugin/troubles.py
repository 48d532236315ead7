"""Say what is wrong with a flow, worst first, and what to do about each.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

from twinlog.airflow.plugin.reading import SeenFlow
from twinlog.airflow.words import in_airflow
from twinlog.audit.coverage import total
from twinlog.facts.gaps import open_gaps
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import DrillState
from twinlog.gate.record import duration, moment
from twinlog.recovery.history import STATES
from twinlog.visible import listed

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.monitoring.status import FlowStatus
    from twinlog.state.ledger import Ledger

NAMED = 3
"""Topics that a sentence names."""

STALE_SECONDS = 60.0
"""An older reading is no news, good or bad."""

_COMMAND = re.compile(r"`|\btwinlog [a-z]|kafka-[a-z]+|\s--[a-z]")
"""Finds commands for a shell in a hint."""

_ORPHANS = {
    "deleted": "gone from the source",
    "left-out": "left out by the configuration",
    "unknown": "not known to this flow",
}


class Tone(IntEnum):
    """How bad it is; the worst is the greatest."""

    GOOD = 0
    IDLE = 1
    WARN = 2
    BAD = 3

    @property
    def css(self) -> str:
        """Return the class of the style sheet."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Say what is wrong, and what to do: "" if there is nothing to do, or `what` says it."""

    tone: Tone
    what: str
    todo: str = ""


_bad, _warning = partial(Trouble, Tone.BAD), partial(Trouble, Tone.WARN)


@dataclass(frozen=True, slots=True)
class State:
    """A flow's state in a word or two, with its tone."""

    word: str
    tone: Tone


def readiness_of(seen: SeenFlow) -> tuple[State, ...]:
    """Return the gate's newest answer in each mode; a yes counts as good for as long as an audit does."""
    if seen.status is None or seen.flow.homes is not None:
        return ()
    lasts = seen.flow.gate.audit_age_seconds
    return tuple(
        State(readiness.told, Tone.IDLE)
        if readiness.ready is None
        else State(
            f"{readiness.told}, {duration(readiness.age_seconds)} ago",
            Tone.BAD
            if not readiness.ready
            else Tone.GOOD
            if readiness.age_seconds is not None and readiness.age_seconds < lasts
            else Tone.IDLE,
        )
        for readiness in seen.status.readiness
    )


def troubles_of(seen: SeenFlow, now: float) -> tuple[Trouble, ...]:
    """Return all of it, worst first."""
    if seen.error:
        return (_bad(seen.error, for_a_page(seen.hint, "docs/errors.md")),)
    if seen.status is None or seen.ledger is None:
        return ()
    every = [
        *_at_rest(seen.status, seen.flow),
        *_stale(seen, now),
        *_of_status(seen.status, seen.flow),
        *_of_ledger(seen.ledger),
        *_of_details(seen),
    ]
    return tuple(sorted(every, key=lambda it: -it.tone))


def for_a_page(hint: str, docs: str) -> str:
    """Return a hint in Airflow's words; if a command is left, the page that says what to do."""
    told = in_airflow(hint)
    return f"{docs} says what to do." if _COMMAND.search(told) else told


def state_of(seen: SeenFlow, now: float, troubles: Iterable[Trouble]) -> State:
    """Return the word for a flow; the worst that can be said comes first, and good news only of a fresh reading."""
    if seen.error:
        return State("cannot be read", Tone.BAD)
    if seen.status is None or seen.ledger is None:
        return State("no way home has begun" if seen.at and seen.never_began else "being read", Tone.IDLE)
    return _of_status_read(seen, seen.status, now, troubles)


def _of_status_read(seen: SeenFlow, status: FlowStatus, now: float, troubles: Iterable[Trouble]) -> State:
    worst = max((trouble.tone for trouble in troubles), default=Tone.GOOD)
    if seen.flow.homes is not None and status.source_reachable and not status.held:
        if status.state is FlowPhase.ACTIVE:
            return State("brings nothing home now", Tone.IDLE)
        return State("brings home", worst)
    word = STATES[status.state]
    if not status.source_reachable:
        active = status.state is FlowPhase.ACTIVE
        return State("source out of reach" if active else f"{word}; source out of reach", Tone.BAD)
    if status.state is not FlowPhase.ACTIVE or status.held:
        return State(word if status.state is not FlowPhase.ACTIVE else "held", max(worst, Tone.WARN))
    return _of_active(seen, now, worst, word)


def _of_active(seen: SeenFlow, now: float, worst: Tone, word: str) -> State:
    if seen.status is not None and not seen.status.has_run:
        return State("never ran", Tone.BAD)
    if worst is Tone.BAD:
        return State("needs attention", Tone.BAD)
    if now - seen.at > STALE_SECONDS:
        return State(f"was {word}", max(worst, Tone.IDLE))
    return State(word, worst)


def _at_rest(status: FlowStatus, settings: FlowSettings) -> Iterator[Trouble]:
    """Tell first of a flow in which nothing happens, or of which nobody has asked whether it is ready."""
    if settings.homes is not None or status.state is not FlowPhase.ACTIVE:
        return
    if not status.has_run:
        yield _bad("This flow has never run.", "Unpause its Dag.")
    elif status.stands_still:
        yield _bad(
            f"No cycle has ended for {duration(status.cycle_age_seconds)}, longer than the RPO.",
            "See whether its Dag is paused, and whether the scheduler runs.",
        )
    if status.has_run and all(readiness.ready is None for readiness in status.readiness):
        since = next((readiness.since for readiness in status.readiness if readiness.since), "")
        yield _warning(
            f"The readiness gate was {f'not asked since {since}' if since else 'never asked'}:"
            " whether a failover could begin is not known.",
            "Dag failover_readiness.",
        )


def _stale(seen: SeenFlow, now: float) -> Iterator[Trouble]:
    age = now - seen.at
    if age > STALE_SECONDS:
        yield Trouble(
            Tone.IDLE,
            f"What is shown was read {duration(age)} ago: nobody looked at it since, or a cluster is slow to answer.",
            "It is being read anew; the page renews itself.",
        )


def _of_status(status: FlowStatus, settings: FlowSettings) -> Iterator[Trouble]:
    source = settings.source.alias
    if not status.source_reachable:
        yield _bad(
            f"{source} does not answer. What is shown is what the last cycle report said, and its age.",
            f"If {source} is lost: Dag failover, mode source-dead (docs/failover.md).",
        )
    if status.held:
        why = status.held.partition("; `")[0]  # commands follow
        yield _warning(f"The flow is {why}. Nothing is copied.", _goes_on(status, settings))
    for problem in status.problems:
        yield Trouble(
            Tone.BAD if problem.blocking else Tone.WARN,
            problem.message,
            for_a_page(problem.hint, "docs/errors.md"),
        )
    for stopped in status.stopped_partitions[:NAMED]:
        yield _bad(f"Nothing is copied of {stopped.message}", "docs/errors.md says what to do.")
    for held in status.undecided:
        yield _warning(held.message, for_a_page(held.hint, "docs/topics.md"))
    over = [topic.topic for topic in status.topics if topic.over_budget]
    if over and status.has_run:
        lanes = (
            "See the log of the Dag's last run; more partitions at once: twinlog.lanes (docs/operations.md)."
        )
        yield _bad(
            f"Further behind than the RPO allows: {listed(over, NAMED)}.",
            "" if status.stands_still else lanes,
        )
    if status.unseen_partitions:
        yield _warning(
            f"{status.unseen_partitions:,} partitions could not be looked at; no number here tells of them."
        )
    lost = open_gaps(status.gaps)
    if lost:
        yield _bad(
            f"Records of {listed(sorted({gap.topic for gap in lost}), NAMED)} will never be copied.",
            "Dag rebuild copies the topic anew; docs/gate.md says how to accept it.",
        )
    for pause in status.paused:
        yield _warning(f"{pause.topic} is paused by {pause.by} since {pause.since}: {pause.reason}", _RESUMED)
    for orphan in status.orphans:
        yield _warning(
            f"Nothing is copied into {orphan.remote_topic} any more: {orphan.topic} is {_ORPHANS[orphan.kind]}."
        )


_RESUMED = "A person resumes it (docs/topics.md, pause and resume)."


def _goes_on(status: FlowStatus, settings: FlowSettings) -> str:
    """Name what lets a held flow go on."""
    if status.state is FlowPhase.PAUSED:
        return _RESUMED
    if status.state is FlowPhase.PROMOTED and settings.homes is None:
        return f"Once {settings.source.alias} is back: Dag failback (docs/runbooks/failback.md)."
    if status.state is FlowPhase.ACTIVE:
        return "docs/failover.md says when it copies again."
    home = status.state is FlowPhase.FAILING_BACK or settings.homes is not None
    dag = "failback" if home else "failover"
    return f"The flow's page has its steps (Failovers); Dag {dag} goes on (docs/{dag}.md)."


def _of_ledger(ledger: Ledger) -> Iterator[Trouble]:
    report = ledger.last_report
    if report is not None and report.summary.get("state") == "failed":
        yield _bad(
            f"The last cycle failed ({report.run_id}).", "The log of that run says which step, and why."
        )
    for outcome in ledger.outcomes:
        if not outcome.ready:
            yield _warning(
                f"The readiness gate ({outcome.mode}) said no at {moment(outcome.at_ms)}: {', '.join(outcome.failed)}.",
                "docs/gate.md says what each check means; its page is under Reports.",
            )
    last = ledger.drills[-1] if ledger.drills else None
    if last is not None and last.state in {DrillState.FAILED, DrillState.KILLED}:
        what = f"The last drill ({moment(last.started_ms)}) {last.state.value}"
        yield _bad(f"{what}: {last.message}" if last.message else what + ".", "docs/runbooks/drill.md")
    drifted = [topic for topic in (ledger.known_source.topics if ledger.known_source else ()) if topic.drift]
    if drifted:
        yield _warning(
            f"Metadata differs between both sides: {listed([topic.topic for topic in drifted], NAMED)}.",
            "Dag sync_metadata, dry run, shows each difference (docs/metadata.md).",
        )


def _of_details(seen: SeenFlow) -> Iterator[Trouble]:
    details = seen.details
    if details is None:
        return
    whole = total(details.coverage)
    observed = seen.flow.observed
    page = "howto/migrate.md" if observed else "audit.md"
    if whole.held and not whole.compared and not details.coverage_error:
        yield _warning(
            "No audit has ever compared the copies with their source: nothing is proved equal.",
            "A cycle compares copies that it has seen for five minutes." if observed else "Dag audit.",
        )
    different = sorted({partition.topic for partition in details.coverage if partition.differences})
    if different:
        yield _bad(
            f"Audits found that copies of {listed(different, NAMED)} are not equal to their source.",
            f"docs/{page} says how to see the records.",
        )
    groups = sorted({row.group for row in details.groups.wrongly}) if details.groups is not None else []
    if groups:
        yield _warning(
            f"Groups would not go on where they should: {listed(groups, NAMED)}.",
            "The table of groups says why, row by row.",
        )
    for what, error in (("audits", details.coverage_error), ("groups", details.groups_error)):
        if error and seen.status is not None and seen.status.source_reachable:
            yield _warning(f"What is known of {what} could not be read: {error}")

"""Pause and resume a flow, or some of its topics: records in the ledger that every cycle and lane generation obeys.

A paused flow copies nothing and changes nothing on the target. Heartbeats go on, as those of MM2 do when its source
connector is paused. A cycle that is copying when the record is written copies to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.topics import TopicPause
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, read_ledger, require_ledger

RECOVERY = "`twinlog recovery status` says what can be done"
TAKE_BACK = "`twinlog migrate takeover` takes it back, once MirrorMaker 2 is stopped: it finds where the copies end now"


@dataclass(frozen=True, slots=True)
class PauseResult:
    """The present pauses; `changed` says whether this call changed anything."""

    flow: str
    state: FlowPhase
    changed: bool
    topics: tuple[TopicPause, ...]


def why_suspended(ledger: Ledger, run: str = "") -> str:
    """Say who suspended the whole flow and why; "" if it copies on behalf of the failover `run`. Pure."""
    state = ledger.flow_state
    if state is None or state.lets_copy(run):
        return ""
    return f"{state.state.value} by {state.by}" + (f": {state.reason}" if state.reason else "")


def why_held(flow: FlowSettings, ledger: Ledger) -> str:
    """Say who suspended a flow and why; "" if a cycle runs.  A hand-over pauses no copy that is observed.  Pure."""
    paused = ledger.phase is FlowPhase.PAUSED
    return "" if flow.observed and paused else why_suspended(ledger, flow.recovery_run)


def why_reverse_holds(reverse: str, ledger: Ledger, own: FlowState | None, run: str = "") -> str:
    """Say why the failover of the `reverse` flow keeps the flow against it standing by; "" if it does not. Pure.

    `ledger` is the reverse flow's, `own` the state of the flow itself. While a failover is under way, nothing may be
    written to its source. After a failover without the source, that may hold records that no other cluster has: a
    person looks at them first, and then resumes this flow.  The failback `run`, which moves both flows, is not held,
    and what it lets this flow do, the state of this flow says.
    """
    state, failover = ledger.flow_state, ledger.present_failover
    if state is None or not state.state.out_of_service or (run and run == state.run):
        return ""
    if state.state is FlowPhase.FAILING_BACK and own is not None and own.run == state.run:
        return ""
    if state.state is FlowPhase.FAILING_OVER:
        return f"standing by: {reverse} is failing over, by {state.by}"
    resumed = own is not None and own.state is FlowPhase.ACTIVE and own.since_ms > state.since_ms
    if failover is not None and failover.mode == "source-dead" and not resumed:
        return (
            f"standing by: {reverse} was failed over without its source; `twinlog recovery status` counts what is there"
            " alone, `twinlog resume` with a reason lets this flow copy"
        )
    return ""


def why_paused(ledger: Ledger, topic: str) -> str:
    """Say who paused a source topic and why; "" if it is not paused. Pure."""
    pause = ledger.pauses.get(topic)
    if pause is None:
        return ""
    return f"paused by {pause.by}" + (f": {pause.reason}" if pause.reason else "")


def pause(
    flow: FlowSettings, target: Cluster, *, topics: Collection[str] = (), by: str, reason: str
) -> PauseResult:
    """Pause the flow, or only these source topics.

    Raises UsageError without a reason, TerminalError `phase` for a flow that is failing over or promoted, and
    `no-ledger` before the first cycle.
    """
    if not reason.strip():
        raise UsageError("a pause needs a reason", hint='such as: --reason "brokers are moved"')

    def decide(ledger: Ledger) -> Entries:
        _require_in_service(flow, ledger)
        now = clock.now_ms()
        if topics:
            new = sorted(name for name in topics if name not in ledger.pauses)
            return Entries([TopicPause(name, now, by, reason) for name in new])
        return Entries([FlowState(FlowPhase.PAUSED, now, by, reason)] if ledger.copies else [])

    return _changed(flow, target, decide)


def resume(
    flow: FlowSettings, target: Cluster, *, topics: Collection[str] = (), by: str, reason: str
) -> PauseResult:
    """Resume the flow, or only these source topics.

    Topics paused one by one stay paused when the flow resumes. Raises as `pause` except for a missing reason, `phase`
    also for a flow that was handed over to MirrorMaker 2, and UsageError for a topic that is not paused.
    """

    def decide(ledger: Ledger) -> Entries:
        _require_in_service(flow, ledger)
        if not topics and ledger.flow_state is not None and ledger.flow_state.handed_over:
            raise _not_now(flow, ledger, TAKE_BACK)
        if unknown := sorted(set(topics) - set(ledger.pauses)):
            raise UsageError(
                f"{flow.name}: {', '.join(unknown)} is not paused", hint="`twinlog status` shows what is"
            )
        if topics:
            return Entries(forgotten=[ledger.pauses[name] for name in sorted(topics)])
        # The reason of a flow that is active may release it from the reverse flow's failover.
        resumes = not ledger.copies or reason.strip()
        return Entries([FlowState(FlowPhase.ACTIVE, clock.now_ms(), by, reason)] if resumes else [])

    return _changed(flow, target, decide)


def how_to_go_on(phase: FlowPhase) -> str:
    """Say what lets a flow that stands by copy again: one that was failed over cannot be resumed.  Pure."""
    return RECOVERY if phase.out_of_service else "`twinlog resume` first"


def _require_in_service(flow: FlowSettings, ledger: Ledger) -> None:
    if ledger.phase.out_of_service:
        raise _not_now(flow, ledger, RECOVERY)


def _not_now(flow: FlowSettings, ledger: Ledger, hint: str) -> TerminalError:
    return TerminalError(
        f"flow {flow.name} is {why_suspended(ledger)}", hint=hint, code="phase", flow=flow.name
    )


def _changed(flow: FlowSettings, target: Cluster, decide: Callable[[Ledger], Entries]) -> PauseResult:
    flow.require_copied("a pause")
    require_ledger(flow, target)
    changed = change(flow, target, decide)
    ledger = read_ledger(flow, target)
    paused = tuple(sorted(ledger.pauses.values(), key=lambda it: it.topic))
    return PauseResult(flow.name, ledger.phase, changed, paused)

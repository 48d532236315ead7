"""Say what the steps of a way home would do now, and change nothing."""

from __future__ import annotations

from dataclasses import replace

from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.recovery import StepState
from twinlog.procedure import Outcome, StepName
from twinlog.recovery.procedure import Tail
from twinlog.recovery.steps import groups
from twinlog.recovery.steps.world import World


def why_tail(flow: FlowSettings, records: int, tail: Tail | None) -> str:
    """Say why a person has to decide about the tail; "" if there is none, or if it is decided.  Pure."""
    if not records or tail is Tail.KEEP:
        return ""
    return (
        f"{records:,} records are on {flow.source.alias} alone; with tail `keep` they stay, and are copied to"
        f" {flow.target.alias} behind what was written there"
    )


def look_bring_home(there: World) -> str:
    """Say what would be removed and come home, and why a person has to decide first."""
    flow, found = there.flow, there.found.apart
    failover = there.ledger.recovery(there.failover)
    denied = len(failover.denied) if failover is not None else 0
    text = f"would remove {denied:,} denials of WRITE on {flow.source.alias}"
    if found is None:
        return text
    tail = why_tail(flow, found.only_on_source, there.request.tail)
    coming = f"{found.least}{found.coming:,} records of {flow.target.alias}"
    text += f"; {coming} are not on {flow.source.alias} now"
    return text + (f"; would wait: {tail}" if tail else "")


def look_drain(there: World) -> str:
    """Say how many records are left to come home."""
    found = there.found.apart
    return f"{found.least}{found.coming:,} records are not on {there.flow.source.alias} now" if found else ""


def are_home(there: World) -> bool:
    """Say whether records have come home in this run: before, no map tells of them, and no group has a place."""
    run = there.noted
    return run is not None and any(
        entry.step == StepName.BRING_HOME and entry.state is StepState.DONE for entry in run.journal
    )


def look_groups(there: World) -> Outcome:
    """Say where groups stand, and where they would go on once there is a place for them."""
    seen = groups.look_groups(there.back)
    if are_home(there):
        return seen
    return replace(seen, message=f"{seen.message.partition(';')[0]}, to be placed once records are home")

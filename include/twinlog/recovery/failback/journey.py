"""Hold what the steps of a way home share, and say what they would do now."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.recovery import RecoveryRun
from twinlog.recovery.failback.failback import Work
from twinlog.recovery.procedure import Tail
from twinlog.recovery.steps.scene import Scene
from twinlog.state.ledger import read_ledger


@dataclass(frozen=True, slots=True)
class Journey:
    """The way home of one process: both flows, what was compared and exported, and what becomes of the tail."""

    there: Scene
    back: Scene
    work: Work
    tail: Tail | None

    @property
    def run(self) -> RecoveryRun | None:
        """The run, as the ledger of the promoted flow has it."""
        return read_ledger(self.there.flow, self.there.clusters.target).recovery(self.there.run)


def why_tail(flow: FlowSettings, records: int, tail: Tail | None) -> str:
    """Say why a person has to decide about the tail; "" if there is none, or if it is decided.  Pure."""
    if not records or tail is Tail.KEEP:
        return ""
    return (
        f"{records:,} records are on {flow.source.alias} alone; with --tail keep they stay, and are copied to"
        f" {flow.target.alias} behind what was written there"
    )


def look_export(journey: Journey) -> str:
    """Say how many records would be exported."""
    found = journey.work.found
    return f"would export {found.least}{found.only_on_source:,} records" if found is not None else ""


def _coming(journey: Journey) -> str:
    """Say how many records would come home."""
    found = journey.work.found
    if found is None:
        return ""
    count = found.only_on_target - found.strayed
    return f"{found.least}{count:,} records"


def look_bring_home(journey: Journey) -> str:
    """Say what would be removed and come home, and why a person has to decide first."""
    flow, found = journey.there.flow, journey.work.found
    failover = read_ledger(flow, journey.there.clusters.target).recovery(journey.work.failover)
    denied = len(failover.denied) if failover is not None else 0
    text = f"would remove {denied:,} denials of WRITE on {flow.source.alias}"
    if found is None:
        return text
    tail = why_tail(flow, found.only_on_source, journey.tail)
    text += f"; {_coming(journey)} of {flow.target.alias} are not on {flow.source.alias} now"
    return text + (f"; would wait: {tail}" if tail else "")


def look_drain(journey: Journey) -> str:
    """Say how many records are left to come home."""
    coming = _coming(journey)
    return coming and f"{coming} are not on {journey.there.flow.source.alias} now"

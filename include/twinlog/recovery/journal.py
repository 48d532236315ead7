"""Move a failover in the ledger: each move is decided behind the flow's fence, and written through its control lane.

A cycle that found the flow active a moment ago may fence it once more.  That costs this process another try; it gives
way only to a process that has taken over the failover itself.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.errors import FencedError, TransientError
from twinlog.formats.ledger.entry import LEDGER_PARTITION, LedgerEntry
from twinlog.formats.ledger.recovery import RecoveryRun
from twinlog.formats.map.offset_map import MapKey, encode_segment
from twinlog.lane.copy.state_records import StateRecord, map_record, progress_record
from twinlog.lane.spec import StateTopics
from twinlog.offsets.segments import MapSegment
from twinlog.recovery.legal import require_legal
from twinlog.recovery.procedure import Actor
from twinlog.recovery.transitions import Move
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, read_behind_fence

TRIES = 4


def acting(by: str, kind: str, driver: str = "") -> Actor:
    """Return this process as it moves a failover; `driver` if it is a try of something that may be tried again."""
    return Actor(by, f"{driver or kind}-{uuid.uuid4().hex[:12]}", socket.gethostname(), driver)


@dataclass(frozen=True, slots=True)
class Journal:
    """Writes the moves of one process; the source is asked for its id only if it is there."""

    flow: FlowSettings
    clusters: Clusters
    actor: Actor
    ask_source: bool

    def move(self, decide: Callable[[Ledger], Move | None]) -> RecoveryRun | None:
        """Take the fence, decide by the ledger read behind it, and write; return the run as it is then.

        If the answer to the write is lost, the next fence settles it, and the ledger behind that tells whether the move
        was made.  Raises what `decide` raises, FencedError if another driver keeps taking the flow, and errors of the
        target.  A flow that another engine copies has no lanes to fence: its ledger is changed in turns.
        """
        if self.flow.observed:
            return self._in_turn(decide)
        written: RecoveryRun | None = None
        for tries_left in reversed(range(TRIES)):
            try:
                state = state_topics(self.flow, self.clusters, ask_source=self.ask_source)
                owned = Ownership.taken(self.flow, self.clusters, "failover", self.actor.holder, state)
                ledger = read_behind_fence(self.flow, self.clusters.target)
                if written is not None and ledger.recovery(written.run) == written:
                    return written
                found = decide(ledger)
                if found is None:
                    return None
                require_legal(ledger, found)
                written = found.run
                owned.write(_records(state, found))
                return written
            except TransientError as error:
                again = isinstance(error, FencedError) or written is not None
                if error.code == "relieved" or not again or not tries_left:
                    raise
        raise AssertionError("unreachable")

    def _in_turn(self, decide: Callable[[Ledger], Move | None]) -> RecoveryRun | None:
        moves: list[Move] = []

        def entries(ledger: Ledger) -> Entries:
            found = decide(ledger)
            if found is None:
                return Entries()
            require_legal(ledger, found)
            moves.append(found)
            return Entries(_written(found), found.forgotten)

        change(self.flow, self.clusters.target, entries)
        return moves[-1].run if moves else None


def _written(found: Move) -> tuple[LedgerEntry, ...]:
    """Return what a move writes into the ledger.  Pure."""
    return tuple(filter(None, (found.run, found.state, found.ended, *found.begun)))


def _records(state: StateTopics, found: Move) -> list[StateRecord]:
    """Return what a move writes.  Pure."""
    topic = state.ledger_topic
    records = [StateRecord.of_ledger(topic, record) for record in _written(found)]
    for passed in found.passed_over:
        last = passed.end - 1 if passed.end else None
        records.append(progress_record(state, passed.life.topic, passed.life.partition, last))
        if passed.start < passed.end:
            nothing = encode_segment(MapSegment(passed.start, passed.end, ()))
            records.append(map_record(state, MapKey(*passed.life, passed.start), nothing))
    gone = [StateRecord(topic, LEDGER_PARTITION, record.key(), None) for record in found.forgotten]
    return [*records, *gone]

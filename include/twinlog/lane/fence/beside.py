"""Write a flow's state beside its lanes: one writer at a time, which ends no copy under way.

A turn is taken as a fence is: initialise a transactional id of its own, then read, then write.

    beside      initialises   waits for the ledger's open records   reads   writes   commits
    the fence   fences the lanes   initialises   reads   writes   initialises again   commits

The driver of a fence initialises the same id, so nobody beside it reads before its write and commits after its read:
a turn begun before its second question is ended by that, and shows in the epoch if it was over by then; one that begins
later finds the driver's records in the ledger, open, and waits for their end.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from twinlog.errors import TransientError
from twinlog.formats.ledger.records import Quarantine
from twinlog.formats.ledger.topics import CopiedThrough, LeaderEpoch
from twinlog.jsonable import from_json
from twinlog.lane.fence.fence import init_writer
from twinlog.lane.transaction import Writer
from twinlog.logs.log_reader import StateLog
from twinlog.protocol.brokers import Brokers

OF_COPIES = frozenset({Quarantine.KIND, CopiedThrough.KIND, LeaderEpoch.KIND})
"""Kinds that lanes write as they copy: nobody decides by them what to write."""

ENDED_SECONDS = 15.0
"""How long after its time-out a coordinator may take to end a transaction: it looks every ten seconds."""


def beside_id(flow: str) -> str:
    """Return the transactional id of those who write beside the lanes; its name is that of its first use."""
    return f"twinlog-{flow}-map-upkeep"


def take_turn(target: Brokers, flow: str, timeout_ms: int, ledger: StateLog) -> Writer:
    """End the turn before, and wait until a fence's transaction has ended; the ledger is to be read after that.

    A record that stays open for longer than a transaction can has lost its end, and counts for nobody.  Raises errors
    of the target.
    """
    writer = init_writer(target, beside_id(flow), timeout_ms)
    deadline = time.monotonic() + timeout_ms / 1000 + ENDED_SECONDS
    while _by_a_fence(ledger.read(target).undecided) and time.monotonic() < deadline:
        time.sleep(0.02)
    return writer


def _by_a_fence(keys: Collection[bytes]) -> bool:
    return any(from_json(key)[0] not in OF_COPIES for key in keys)


@dataclass(slots=True)
class Alone:
    """Those beside the lanes, as the driver of a fence keeps them out: `writer` is of its last question."""

    flow: str
    timeout_ms: int
    writer: Writer

    @classmethod
    def taken(cls, target: Brokers, flow: str, timeout_ms: int) -> Alone:
        """End the turn under way; what is read from now on is what it left."""
        return cls(flow, timeout_ms, init_writer(target, beside_id(flow), timeout_ms))

    def require(self, target: Brokers) -> None:
        """End a turn that was begun since the last question; raise TransientError `overtaken` if there was one."""
        before = self.writer
        self.writer = init_writer(target, beside_id(self.flow), self.timeout_ms)
        if self.writer != replace(before, producer_epoch=before.producer_epoch + 1):
            raise TransientError(
                f"what is known of {self.flow} was changed while it was to be changed",
                hint="nothing was written; try again, as the next cycle does",
                code="overtaken",
            )

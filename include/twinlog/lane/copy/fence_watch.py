"""Watch the ledger for a new fence of the flow, so that a lane at rest hears of it.

A lane that writes learns of a fence from the answer to its next request.  A lane at rest would not learn of it, and
would keep its Spark slot.  Every fence initialises all lanes and only then writes its record into the ledger
(lane/fence/fence.py), so a lane that sees the record of a later fence is fenced.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Self

from twinlog.batches.record import key_and_value, read_records
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import FormatError, TwinlogError
from twinlog.formats.ledger.records import LaneFence, parse_ledger
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import FenceMark
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.legacy import walk_verified
from twinlog.protocol.wire import Fetched

_FETCH_BYTES = 1 << 20
_WAIT_MS = 2_000
_PAUSE_SECONDS = 2.0
"""Pause before a ledger that could not be read is asked for again."""


class FenceWatch:
    """Watch in a thread and over a connection of its own, while the context is open.

    `heard` is set if a fence later than `mark` is in the ledger, or may be, because a batch is damaged or the log was
    truncated.  In that case the driver reads the ledger, and reports the damage.  Never raises: a ledger that is not
    served is asked for again.
    """

    def __init__(self, target: ConnectionSettings, ledger_topic: str, mark: FenceMark) -> None:
        self.heard = threading.Event()
        self._target = target
        self._ledger = TopicPartition(ledger_topic, 0)
        self._mark = mark
        self._position = mark.ledger_offset
        self._epoch = -1
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()  # the thread ends with the answer that it waits for

    def _listen(self) -> None:
        while not (self._over.is_set() or self.heard.is_set()):
            with suppress(TwinlogError), Brokers(self._target) as brokers:
                self._read(brokers)
            self._over.wait(_PAUSE_SECONDS)

    def _read(self, brokers: Brokers) -> None:
        """Read on until a later fence appears, or an error."""
        fetcher = Fetcher(
            brokers,
            max_bytes=_FETCH_BYTES,
            partition_max_bytes=_FETCH_BYTES,
            read_committed=False,
            max_wait_ms=_WAIT_MS,
        )
        while not (self._over.is_set() or self.heard.is_set()):
            if fetcher.request({self._ledger: self._position}):
                return
            for fetched in (it for answer in fetcher.answers() for it in answer):
                if (
                    fetched.error == Code.OFFSET_OUT_OF_RANGE
                ):  # the ledger lost its end, maybe with a fence in it
                    self.heard.set()
                if fetched.error:
                    return
                try:
                    self._take(fetched)
                except FormatError:  # asking again would not help, and would hide every later fence
                    self.heard.set()

    def _take(self, fetched: Fetched) -> None:
        for header, batch in walk_verified(fetched.block):
            if header.last_offset < self._position:
                continue
            elected = -1 < self._epoch < header.leader_epoch
            self._epoch = max(self._epoch, header.leader_epoch)
            if (
                elected
            ):  # it may have cut off what was read, and have put a fence in its place: read all of it again
                self._position = self._mark.ledger_offset
                return
            self._position = header.next_offset
            if not header.control and any(
                is_later_fence(*key_and_value(record), self._mark) for record in read_records(header, batch)
            ):
                self.heard.set()


def is_later_fence(key: bytes | None, value: bytes | None, mark: FenceMark) -> bool:
    """Say whether a record of the ledger, from the mark on, belongs to another fence than the mark's own.  Pure.

    Committed or not: if lanes were initialised, that happened before the record.  A record that cannot be read counts
    as no.
    """
    if key is None or value is None:
        return False
    try:
        record = parse_ledger(key, value)
    except TwinlogError:
        return False
    return isinstance(record, LaneFence) and not mark.is_of(record)

"""Write to a scratch topic as lanes do, and see what the cluster made of it."""

from __future__ import annotations

import time
from contextlib import suppress
from statistics import median

from twinlog import clock
from twinlog.batches.codec import NAMES
from twinlog.batches.header import CRC_AT, walk
from twinlog.batches.outgoing import Outgoing, Stretches
from twinlog.batches.record import Record, build_batch, record_rest
from twinlog.errors import ClusterRefused, FencedError, TerminalError, TransientError
from twinlog.lane.fence.fence import commit_batches, init_writer, transactional_prefix
from twinlog.lane.producer import Lane
from twinlog.logs.log_reader import read_while, refuse
from twinlog.protocol.brokers import LATEST
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.wire import Fetched
from twinlog.trial.bench import Bench

RECORDS = 10
"""Records of a batch."""

_DAY_MS = 86_400_000
_TIMES = 20
_LARGE = 10_000
"""Bytes of a value, of which a batch has RECORDS."""

_FETCH_BYTES = 1 << 20


def batch(codec: int = 0, value_bytes: int = 100) -> Outgoing:
    """Build a batch whose records are a day old, as those that a copy brings."""
    at = clock.now_ms() - _DAY_MS
    value = bytes(value_bytes)
    records = [Record(0, at + n, record_rest(b"%d" % n, value, (("try", None),))) for n in range(RECORDS)]
    return Outgoing.built(build_batch(records, codec), Stretches(0, [0, 0, RECORDS]))


def transact(bench: Bench) -> None:
    """Take a transactional id that no lane has, and commit a batch."""
    bench.lane = new_lane(bench)
    commit_batches(bench.lane, {bench.at: [batch()]})
    bench.written = bench.lane.take_written()


def new_lane(bench: Bench) -> Lane:
    """Return a lane that fences those before it."""
    name = f"{transactional_prefix(bench.flow.name)}try"
    lane = Lane(bench.brokers, init_writer(bench.brokers, name, bench.flow.copy.transaction_timeout_ms))
    lane.begin([bench.at])
    return lane


def codecs(bench: Bench) -> str:
    """Commit a batch of each codec, in a transaction of its own."""
    refused: dict[str, TerminalError] = {}
    for codec, name in NAMES.items():
        try:
            commit_batches(bench.lane, {bench.at: [batch(codec)]})
        except ClusterRefused:
            raise
        except TerminalError as error:
            refused[name] = error
    bench.lane.await_markers()
    bench.written += bench.lane.take_written()
    if refused:
        why = "; ".join(f"{name}: {error.message}" for name, error in refused.items())
        raise ClusterRefused(why, hint="see `twinlog check`, or set twinlog.compression.type")
    return ", ".join(NAMES.values())


def exact(bench: Bench) -> None:
    """See that each batch lies where the answer said."""
    there = _log(bench)
    for it in bench.written:
        if it.base_offset not in there:
            raise ClusterRefused(f"a batch that was answered with offset {it.base_offset} is not there")


def unchanged(bench: Bench) -> None:
    """See that batches are the bytes that were sent, from the checksum on."""
    there = _log(bench)
    for it in bench.written:
        if there[it.base_offset][CRC_AT:] != it.outgoing.buffer[CRC_AT:]:
            raise ClusterRefused(f"a {NAMES[it.outgoing.header.codec]} batch was changed")


def committed(bench: Bench) -> None:
    """Abort a transaction, and see that readers of committed records see the others alone."""
    bench.lane.write_state({bench.at: [batch()]})
    bench.lane.abort()
    bench.lane.await_markers()
    expected = RECORDS * len(bench.written)
    start = {bench.at: bench.written[0].base_offset}
    for only, wanted in ((True, expected), (False, expected + RECORDS)):
        seen = len(bench.cluster.read_records(start, 1000, read_committed=only)[bench.at])
        if seen != wanted:
            who = "committed" if only else "all"
            raise ClusterRefused(f"a reader of {who} records sees {seen}, not {wanted}")


def twice(bench: Bench) -> None:
    """Send the last batch again, and see that it is there once."""
    lane = bench.lane
    last = lane.sequences.next[bench.at] - RECORDS
    again = Lane(bench.brokers, lane.writer, {bench.at: last})
    again.begin([bench.at])
    end = bench.brokers.offsets([bench.at], LATEST)[bench.at]
    with suppress(TransientError):  # the lane notices the older offset, and stops
        again.write_state({bench.at: [batch()]})
    if bench.brokers.offsets([bench.at], LATEST)[bench.at] != end:
        raise ClusterRefused("a batch that was sent twice is there twice")


def fence(bench: Bench) -> None:
    """Take the transactional id again, and see that the older writer may write no more."""
    older, bench.lane = bench.lane, new_lane(bench)
    with suppress(FencedError):
        older.write_state({bench.at: [batch()]})
        raise ClusterRefused("an older writer of the same transactional id may still write")


def pace(bench: Bench) -> str:
    """Measure small transactions, then large ones until the cluster throttles."""
    small = [_milliseconds(bench, 100) for _ in range(_TIMES)]
    large = []
    for _ in range(_TIMES):
        large.append(_milliseconds(bench, _LARGE))
        if bench.lane.throttled_ms:
            break
    return (
        f"{median(small):,.1f} ms a transaction of 1 KB, {median(large):,.1f} ms one of 100 KB;"
        f" throttled for {bench.lane.throttled_ms:,} ms in {len(large) / 10:.1f} MB"
    )


def _milliseconds(bench: Bench, value_bytes: int) -> float:
    began = time.monotonic()
    commit_batches(bench.lane, {bench.at: [batch(value_bytes=value_bytes)]})
    return (time.monotonic() - began) * 1000


def _log(bench: Bench) -> dict[int, bytes]:
    """Read the batches of the scratch partition as they lie, by their offset."""
    found: dict[int, bytes] = {}
    positions = {bench.at: 0}
    end = bench.brokers.offsets([bench.at], LATEST)[bench.at]

    def take(fetched: Fetched) -> int:
        position = positions[bench.at]
        for header, content in walk(fetched.block):
            found[header.base_offset], position = bytes(content), header.next_offset
        return position

    fetcher = Fetcher(
        bench.brokers, max_bytes=_FETCH_BYTES, partition_max_bytes=_FETCH_BYTES, read_committed=False
    )
    read_while(bench.brokers, fetcher, positions, lambda at: positions[at] < end, take, refuse)
    return found

"""Fence a flow, and write through its control lane.

    1. initialise lane 0, the control lane
    2. read the lane count from the ledger; initialise every other lane that the flow ever used or will use;
       stop if the state belongs to another flow (lane/fence/ownership.py);
       if it belongs to none, claim it through lane 0 and read again
    3. commit a small transaction through lane 0 that writes (run id, lane count) and producer ids that are new to
       the ledger; if it fails, another driver holds the flow
    4. read progress, read_uncommitted up to the high watermark taken now, resolving markers;
       where the newest raw record was aborted, write the committed value again, because MM2 reads it raw

If a transaction of ours is still open in step 4, its end was lost (lane/open_transactions.py). Its other records may
be committed in the copy, so nothing is written then: the driver finds the outcome, or stops (copying/mend/state.py).

The control lane is needed because two drivers might initialise lane by lane at the same time. Each would then own
some lanes, and the same partition would be copied twice. If step 3 commits, no other driver initialised lane 0 in
between, and one that does so later will fence all our lanes before it reads anything:

    driver 1   init 0 | init 1 .. n | commit through 0 | lanes write, until driver 2 fences them
    driver 2                                               init 0 | init 1 .. n | commit through 0 | read progress

The control lane does not protect against a second name for the same target; the claim does. A driver may write more
through it, such as positions migrated from MirrorMaker 2: all in one transaction, or none if it was fenced since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog import clock
from twinlog.batches.outgoing import Outgoing
from twinlog.errors import ClusterUnreachable, FencedError, TerminalError, TransientError, TwinlogError
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.reading import lane_writers, of_kind
from twinlog.formats.ledger.records import LaneFence
from twinlog.formats.ledger.writers import LaneWriter
from twinlog.formats.mm2.connect_offset import parse_copy_end, parse_offset_value, partition_for
from twinlog.grouped import grouped
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.lane.copy.state_records import StateRecord, batches, own_key
from twinlog.lane.fence.lost_progress import LostProgressError, lost_progress
from twinlog.lane.fence.ownership import Identity, Owned, require_claimed, require_ours
from twinlog.lane.in_flight import Refused
from twinlog.lane.producer import Lane
from twinlog.lane.spec import FenceMark, StateTopics
from twinlog.lane.transaction import Writer
from twinlog.logs.log_reader import StateLog
from twinlog.logs.log_state import LogState
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code, Request, error_for, repeats
from twinlog.protocol.retry import until

log = logging.getLogger(__name__)

_NO_PRODUCER = -1

_PASSES = 3
"""The tries of an uncontested fence, if its end is lost or does not reach the ledger."""

_PATIENCE_SECONDS = 30.0

_LONGEST_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class GrantedLane:
    """A lane that this driver may hand to one task: its identity, and the next sequences after the driver's writes."""

    lane: int
    writer: Writer
    sequences: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """The result of a fence: the lanes, and progress read behind it.

    `progress` is the last copied upstream offset by (source topic, partition); partitions never copied are absent.
    `copy_ends` are the ends of the copies at that progress (downstream), as far as they are known.  `mark` tells this
    fence from later ones.  `writers` are the producers of all lanes that were fenced, granted
    or not.  `ours` are the producer ids of all lanes that ever existed.
    """

    run_id: str
    lanes: tuple[GrantedLane, ...]
    progress: Positions
    mark: FenceMark
    writers: tuple[Writer, ...] = ()
    ours: frozenset[int] = frozenset()
    copy_ends: Positions = field(default_factory=dict)


def transactional_id(flow: str, lane: int) -> str:
    """Return the transactional id of a lane; a PREFIXED ACL on `twinlog-<flow>-` covers all of them."""
    return f"twinlog-{flow}-{lane}"


def transactional_prefix(flow: str) -> str:
    """Return what the transactional ids of all lanes of a flow begin with."""
    return transactional_id(flow, 0).removesuffix("0")


@dataclass(frozen=True, slots=True)
class FenceLogs:
    """The topics that a fence reads; a driver that fences repeatedly keeps them, to read only new records."""

    ledger: StateLog
    progress: StateLog

    @classmethod
    def of(cls, state: StateTopics) -> FenceLogs:
        """Start with logs that are read from their beginnings."""
        return cls(StateLog(state.ledger_topic), StateLog(state.offsets_topic))


def fence(
    target: Brokers,
    flow: str,
    state: StateTopics,
    run_id: str,
    lanes: int,
    transaction_timeout_ms: int,
    logs: FenceLogs | None = None,
) -> Grant:
    """Fence the flow for `run_id` and read its progress.

    The fence is repeated if it did not end well: an EndTxn that was not answered at first could be applied to lane 0's
    next transaction, and readers do not see a fence that is missing in the ledger.  Raises TransientError if no try
    succeeds, FencedError if another driver holds the flow, TerminalError if twinlog's topics are missing or the state
    belongs to another flow, and LostProgressError if the target lost the end of a transaction.
    """
    logs = logs or FenceLogs.of(state)
    for _ in range(_PASSES):
        granted = _fenced(target, flow, state, run_id, lanes, transaction_timeout_ms, logs)
        if granted is not None:
            return granted
    raise TransientError(
        f"the fence of {flow} did not reach the ledger in {_PASSES} tries",
        hint=f"see that {state.ledger_topic} has a leader, and that transactions end",
        code="fence-again",
    )


def _fenced(
    target: Brokers,
    flow: str,
    state: StateTopics,
    run_id: str,
    lanes: int,
    transaction_timeout_ms: int,
    logs: FenceLogs,
) -> Grant | None:
    first = init_writer(target, transactional_id(flow, 0), transaction_timeout_ms)
    identity = Identity(flow, state.source_cluster_id, state.target_cluster_id)
    ledger = logs.ledger.read(target)
    ledger_end = logs.ledger.position(0)
    owned = read_owned(logs, ledger)
    require_ours(identity, owned)
    count = max(lanes, *lanes_ever(ledger))
    names = [transactional_id(flow, number) for number in range(1, count)]
    writers = [first, *init_writers(target, names, transaction_timeout_ms)]
    control = Lane(target, first)
    now = clock.now_ms()
    if identity.known and not owned.claims:
        # In a transaction of its own: a claim that loses must not leave a fence, with a lane count, over another's.
        _commit_through_control_lane(control, state, [identity.claim(now)], flow)
        require_claimed(identity, read_owned(logs, logs.ledger.read(target)))
    entries = (LaneFence(run_id, count, now), *_unknown_writers(writers, ledger, now))
    _commit_through_control_lane(control, state, entries, flow)
    read = logs.progress.read(target)
    ours = frozenset(lane_writers(ledger.committed) | lane_writers(_undecided(ledger)))
    ours = ours.union(writer.producer_id for writer in writers)
    if lost := lost_progress(read, state, ours):
        _commit_through_control_lane(
            control, state, entries, flow
        )  # fails if they are open only because we were fenced
        sure = own_progress(read.committed, state)
        raise LostProgressError(target.settings.alias, state, writers, lost, sure)
    progress = _progress(control, read, state)
    now_known = logs.ledger.read(target)
    require_claimed(identity, read_owned(logs, now_known))
    seen = last_fence(now_known)
    if control.transaction.unacknowledged_end or seen is None or (seen.run_id, seen.at_ms) != (run_id, now):
        return None
    used = tuple((topic, partition, number) for (topic, partition), number in control.sequences.next.items())
    granted = [GrantedLane(0, first, used)]
    granted += [GrantedLane(number, writer) for number, writer in enumerate(writers[1:lanes], start=1)]
    mark = FenceMark(run_id, now, ledger_end)
    ends = copy_ends(read, state)
    log.info("%s fenced by run %s: %d lanes, %d granted", flow, run_id, count, len(granted))
    return Grant(run_id, tuple(granted), progress, mark, tuple(writers), ours, ends)


def read_owned(logs: FenceLogs, ledger: LogState) -> Owned:
    """Return the owners that the ledger just read names."""
    return Owned.of(logs.ledger.records, ledger.undecided)


def last_fence(ledger: LogState) -> LaneFence | None:
    """Return the last fence in the ledger, or None if the flow was never fenced."""
    return next(_fences(ledger.committed), None)


def lanes_ever(ledger: LogState) -> tuple[int, ...]:
    """Return the lane counts of the last fence, and of any fence whose end the target has lost.

    The lanes of such a fence may write, because its driver was told that the fence had committed.
    """
    return 1, *(
        lane_fence.lane_count
        for known in (ledger.committed, _undecided(ledger))
        for lane_fence in _fences(known)
    )


def _fences(known: Mapping[bytes, bytes | None]) -> Iterator[LaneFence]:
    return of_kind(known, LaneFence)


def _undecided(ledger: LogState) -> Mapping[bytes, bytes | None]:
    return {key: it.value for key, it in ledger.undecided.items()}


def init_writer(target: Brokers, name: str, timeout_ms: int) -> Writer:
    """Do as `init_writers` for one id."""
    return init_writers(target, [name], timeout_ms)[0]


def init_writers(target: Brokers, names: Sequence[str], timeout_ms: int) -> list[Writer]:
    """Send InitProducerId, which ends the open transaction of an id's last owner and fences it; repeat if busy.

    All ids of a coordinator are sent before the first answer is read.  A request is also repeated if an answer is
    lost: the later epoch is then ours, and no producer uses the earlier one.
    """
    found: dict[str, Writer] = {}
    failure: TwinlogError = TransientError("InitProducerId")

    def granted() -> list[Writer] | None:
        nonlocal failure
        coordinators = target.coordinators([it for it in names if it not in found])
        for connection, group in grouped((it, name) for name, it in coordinators.items()).items():
            try:
                answers = connection.call_each(
                    kafka_python.INIT_PRODUCER_ID, [_init_fields(name, timeout_ms) for name in group]
                )
            except ClusterUnreachable as error:
                target.forget_coordinators()
                failure = error
                return None
            for name, answer in zip(group, answers, strict=True):
                code = int(answer.error_code)
                if code == 0 and answer.producer_id >= 0:
                    found[name] = Writer(name, int(answer.producer_id), int(answer.producer_epoch))
                    continue
                failure = error_for(code, f"InitProducerId of {name}", target.settings.alias)
                if not repeats(Request.INIT_PRODUCER, code):
                    raise failure
        return [found[name] for name in names] if len(found) == len(names) else None

    return until(granted, lambda: failure, seconds=_PATIENCE_SECONDS, longest_seconds=_LONGEST_PAUSE_SECONDS)


def _init_fields(name: str, timeout_ms: int) -> dict[str, object]:
    return {
        "transactional_id": name,
        "transaction_timeout_ms": timeout_ms,
        "producer_id": _NO_PRODUCER,
        "producer_epoch": _NO_PRODUCER,
    }


def _unknown_writers(writers: Iterable[Writer], ledger: LogState, now_ms: int) -> Iterator[LaneWriter]:
    """Yield producer ids that the ledger does not know yet: the reverse flow must know them (batches/loopback.py)."""
    for writer in writers:
        record = LaneWriter(writer.producer_id, writer.transactional_id or "", now_ms)
        if record.key() not in ledger.committed:
            yield record


def _commit_through_control_lane(
    control: Lane, state: StateTopics, records: Iterable[LedgerEntry], flow: str
) -> None:
    entries = [StateRecord.of_ledger(state.ledger_topic, record) for record in records]
    try:
        write_own(control, entries)
        control.await_markers()  # readers that see a batch of ours can see in the ledger that it is ours
    except FencedError:
        raise FencedError(
            f"another twinlog runs flow {flow}",
            hint="let one of them run; this one copied nothing",
            flow=flow,
        ) from None


def _progress(control: Lane, log: LogState, state: StateTopics) -> Positions:
    """Return progress; first write the committed value again where an aborted record lies above it."""
    repairs = [
        StateRecord(
            state.offsets_topic,
            partition_for(key, state.offsets_partitions),
            key,
            value,
            log.headers.get(key, ()),
        )
        for key, value in log.overshadowed.items()
        if own_key(state, key) is not None
    ]
    if repairs:
        write_own(control, repairs)
    return own_progress(log.committed, state)


def write_own(
    control: Lane,
    records: Iterable[StateRecord],
    *,
    wait: bool = True,
    sure: Callable[[Brokers], None] | None = None,
) -> None:
    """Write through the control lane in a transaction of its own; it fails if another driver has fenced us meanwhile.

    With `wait` it waits for leaders; if `sure` raises, once the records are in the log, they are not committed.
    Raises as `commit_batches`.
    """
    commit_batches(control, batches(records, clock.now_ms()), wait=wait, sure=sure)


def commit_batches(
    control: Lane,
    queues: Mapping[TopicPartition, Sequence[Outgoing]],
    *,
    wait: bool = True,
    sure: Callable[[Brokers], None] | None = None,
) -> None:
    """Write batches of our own in one transaction, as `write_own` does its records.

    Raises TerminalError `state-refused` for a record that the target refuses, TransientError if no leader takes the
    records (in time), FencedError. Nothing is written in these cases.
    """
    refused: list[Refused] = []

    def committed() -> bool | None:
        refused[:] = control.write_state(queues)
        if not refused:
            try:
                if sure is not None:
                    sure(control.brokers)
            except TwinlogError:
                control.abort()
                raise
            control.commit()
            return True
        control.abort()
        if final := next((it for it in refused if not it.resend), None):
            topic, partition = final.partition
            wrong_clock = final.code == Code.INVALID_TIMESTAMP
            raise TerminalError(
                f"{topic}-{partition} refused twinlog's own record: {final.message}",
                hint="set the clock of this machine, or the broker's"
                if wrong_clock
                else "see what `twinlog check` says of permissions; a cycle creates what is missing",
                code="state-refused",
                topic=topic,
            )
        control.brokers.forget_leaders()
        return None

    def leaderless() -> TransientError:
        if wait:
            return control.transaction.doubt(
                f"twinlog's own topics had no leader for {_PATIENCE_SECONDS:.0f} s"
            )
        topic, partition = refused[0].partition
        return TransientError(
            f"{topic}-{partition} took no record of twinlog's: {refused[0].message}",
            hint="its leader has moved, or has gone; try again",
            code="unsettled",
        )

    seconds = _PATIENCE_SECONDS if wait else 0.0
    until(committed, leaderless, seconds=seconds, longest_seconds=_LONGEST_PAUSE_SECONDS)


def write_fenced(
    target: Brokers,
    granted: GrantedLane,
    records: Iterable[StateRecord],
    sure: Callable[[Brokers], None] | None = None,
) -> None:
    """Commit `records` through the control lane of a fence just passed, and wait until readers see them.

    Raises as `write_own`, which asks `sure`, at once if a record's partition has no leader now.
    """
    sequences = {TopicPartition(topic, partition): number for topic, partition, number in granted.sequences}
    control = Lane(target, granted.writer, sequences)
    write_own(control, records, wait=False, sure=sure)
    control.await_markers()


def own_progress(committed: Mapping[bytes, bytes], state: StateTopics) -> Positions:
    """Return the progress of this flow's own keys; other connectors' keys, which may share the topic, are ignored."""
    result = {}
    for key, value in committed.items():
        parsed = own_key(state, key)
        offset = parse_offset_value(value) if parsed else None
        if parsed is not None and offset is not None:
            result[parsed.topic_partition] = offset
    return result


def copy_ends(log: LogState, state: StateTopics) -> Positions:
    """Return the ends of the copies (downstream) stored with this flow's progress, where they are known.  Pure."""
    result = {}
    for key, headers in log.headers.items():
        parsed, end = own_key(state, key), parse_copy_end(headers)
        if parsed is not None and end is not None:
            result[parsed.topic_partition] = end
    return result

"""The fence: from here on nobody but this driver writes for the flow (docs/decisions/0001-fence.md).

    1. initialise lane 0, the gate lane
    2. read the lane count from the ledger; initialise every other lane the flow ever used or will use
       stop if the state is another's (lane/fence/ownership.py); if it is nobody's, claim it through lane 0, read again
    3. commit a small transaction through lane 0 that writes (run id, lane count) and producer ids that are new to
       the ledger; if it fails, another driver holds the flow
    4. read progress, read_uncommitted up to the high watermark taken now, resolving markers;
       where the newest raw record was aborted, write the committed value again, because MM2 reads it raw

A transaction of ours that is still open in step 4 has lost its end (lane/hanging.py).  The same transaction may be
committed in the copy, so nothing is written then: the driver finds out which it was, or stops (copying/mend/state.py).
In the map and the copy it looks for the same, before lanes write.

Why a gate: two drivers that initialise lane by lane at the same time would each own some lanes, and copy the same
partition twice.  If step 3 commits, nobody initialised lane 0 in between, and whoever does so later will fence all our
lanes before reading anything.  Of another name for the same target the gate knows nothing: that is what the claim is
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twinlog import clock
from twinlog.errors import ClusterUnreachable, FencedError, TerminalError, TransientError, TwinlogError
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.reading import lane_writers, of_kind
from twinlog.formats.ledger.records import LaneFence
from twinlog.formats.ledger.writers import LaneWriter
from twinlog.formats.mm2.connect_offset import parse_copy_end, parse_offset_value
from twinlog.formats.mm2.partitioner import partition_for
from twinlog.lane.copy.state_records import StateRecord, batches, own_key
from twinlog.lane.fence.lost_progress import LostProgressError, lost_progress
from twinlog.lane.fence.ownership import Identity, Owned, require_claimed, require_ours
from twinlog.lane.producer import Lane
from twinlog.lane.spec import FenceMark, StateTopics
from twinlog.lane.transaction import Writer
from twinlog.logs.log_reader import StateLog
from twinlog.logs.log_state import LogState
from twinlog.protocol import kafka_python
from twinlog.protocol.backoff import until
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.error_codes import Code, error_for
from twinlog.protocol.remedies import Request, repeats

_NO_PRODUCER = -1
_PASSES = 3
"""Of a fence that nobody contests, when its end is lost or does not reach the ledger."""

_PATIENCE_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class GrantedLane:
    """A lane this driver may hand to one task: its identity, and the sequences the driver used up."""

    lane: int
    writer: Writer
    sequences: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """What the fence gave: the lanes, and progress read behind it.

    `progress` is the last copied upstream offset by (source topic, partition); partitions never copied are
    absent.  `copy_ends` is where the copies ended with it (downstream), as far as it says so.  `mark` tells this fence
    from later ones.  `writers` are those of all lanes that were fenced, granted or not; `ours` are the producer ids of
    all lanes there ever were.
    """

    run_id: str
    lanes: tuple[GrantedLane, ...]
    progress: Mapping[tuple[str, int], int]
    mark: FenceMark
    writers: tuple[Writer, ...] = ()
    ours: frozenset[int] = frozenset()
    copy_ends: Mapping[tuple[str, int], int] = field(default_factory=dict)


def transactional_id(flow: str, lane: int) -> str:
    """Return the transactional id of a lane; a PREFIXED ACL on `twinlog-<flow>-` covers them all."""
    return f"twinlog-{flow}-{lane}"


def upkeep_id(flow: str) -> str:
    """Return the transactional id of whoever joins pieces of the map: one at a time (offset_sync/map_compaction.py)."""
    return f"twinlog-{flow}-map-upkeep"


@dataclass(frozen=True, slots=True)
class FenceLogs:
    """The topics a fence reads; a driver that fences again and again keeps them, to read only what is new.

    The map is read where there are no transactions (copying/mend/at_least_once.py).
    """

    ledger: StateLog
    progress: StateLog
    offset_map: StateLog

    @classmethod
    def of(cls, state: StateTopics) -> FenceLogs:
        """Begin at the logs' beginnings."""
        offset_map = StateLog(state.map_topic, cached=True)
        return cls(StateLog(state.ledger_topic), StateLog(state.offsets_topic), offset_map)


def fence(
    target: Brokers,
    flow: str,
    state: StateTopics,
    *,
    run_id: str,
    lanes: int,
    transaction_timeout_ms: int,
    logs: FenceLogs | None = None,
) -> Grant:
    """Fence the flow for `run_id` and read its progress.

    Once more where that did not end well: an end that was not answered at first could be done to what lane 0 writes,
    and a fence that the ledger does not show is none for whoever reads it.  Raises TransientError when it never does,
    FencedError when another driver holds the flow, TerminalError when twinlog's topics are missing or the state is
    another's, and LostProgressError when the target lost the end of a transaction.
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
    gate = init_writer(target, transactional_id(flow, 0), transaction_timeout_ms)
    identity = Identity(flow, state.source_cluster_id, state.target_cluster_id)
    ledger = logs.ledger.read(target)
    ledger_end = logs.ledger.position(0)
    owned = read_owned(logs, ledger)
    require_ours(identity, owned)
    count = max(lanes, *lanes_ever(ledger))
    writers = [gate]
    writers += [
        init_writer(target, transactional_id(flow, n), transaction_timeout_ms) for n in range(1, count)
    ]
    gate_lane = Lane(target, gate)
    now = clock.now_ms()
    if identity.known and not owned.claims:
        # By itself: one that loses must not leave a fence of its own, with its lane count, over the other's.
        _pass_the_gate(gate_lane, state, [identity.claim(now)], flow)
        require_claimed(identity, read_owned(logs, logs.ledger.read(target)))
    entries = (LaneFence(run_id, count, now), *_unknown_writers(writers, ledger, now))
    _pass_the_gate(gate_lane, state, entries, flow)
    log = logs.progress.read(target)
    ours = frozenset(lane_writers(ledger.committed) | lane_writers(_undecided(ledger)))
    ours = ours.union(it.producer_id for it in writers)
    if lost := lost_progress(log, state, ours):
        _pass_the_gate(gate_lane, state, entries, flow)  # fails if they are open because somebody fenced us
        sure = own_progress(log.committed, state)
        raise LostProgressError(target.settings.alias, state, writers, lost, sure)
    progress = _progress(gate_lane, log, state)
    now_known = logs.ledger.read(target)
    require_claimed(identity, read_owned(logs, now_known))
    seen = last_fence(now_known)
    if gate_lane.transaction.end_at_large or seen is None or (seen.run_id, seen.at_ms) != (run_id, now):
        return None
    used = tuple(
        (topic, partition, number) for (topic, partition), number in gate_lane.sequences.next.items()
    )
    granted = [GrantedLane(0, gate, used)]
    granted += [GrantedLane(number, writer) for number, writer in enumerate(writers[1:lanes], start=1)]
    mark = FenceMark(run_id, now, ledger_end)
    return Grant(run_id, tuple(granted), progress, mark, tuple(writers), ours, copy_ends(log, state))


def read_owned(logs: FenceLogs, ledger: LogState) -> Owned:
    """Say whose the ledger is that was just read."""
    return Owned.of(logs.ledger.records, ledger.undecided)


def last_fence(ledger: LogState) -> LaneFence | None:
    """Return the last fence the ledger knows of, if the flow was ever fenced."""
    return next(_fences(ledger.committed), None)


def lanes_ever(ledger: LogState) -> tuple[int, ...]:
    """How many lanes there were, by the last fence, and by one whose end the target has lost (lane/hanging.py).

    That one's lanes may write: its driver was told that it had committed.
    """
    return 1, *(it.lane_count for known in (ledger.committed, _undecided(ledger)) for it in _fences(known))


def _fences(known: Mapping[bytes, bytes | None]) -> Iterator[LaneFence]:
    return of_kind(known, LaneFence)


def _undecided(ledger: LogState) -> Mapping[bytes, bytes | None]:
    return {key: it.value for key, it in ledger.undecided.items()}


def init_writer(target: Brokers, name: str | None, timeout_ms: int) -> Writer:
    """InitProducerId: ends what the id's last owner had open, and fences it.  Repeated while that goes on.

    Repeated as well when an answer is lost: the later epoch is ours, the earlier one nobody has.
    """
    doing = f"InitProducerId of {name or 'an idempotent producer'}"
    failure: TwinlogError = TransientError(doing)

    def granted() -> Writer | None:
        nonlocal failure
        connection = target.coordinator(name) if name is not None else target.any_broker()
        try:
            answer = connection.call(
                kafka_python.INIT_PRODUCER_ID,
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                producer_id=_NO_PRODUCER,
                producer_epoch=_NO_PRODUCER,
            )
        except ClusterUnreachable as error:
            target.forget_coordinators()
            failure = error
            return None
        code = int(answer.error_code)
        if code == 0 and answer.producer_id >= 0:
            return Writer(name, int(answer.producer_id), int(answer.producer_epoch))
        failure = error_for(code, doing, target.settings.alias)
        if repeats(Request.INIT_PRODUCER, code):
            return None
        raise failure

    return until(granted, lambda: failure, seconds=_PATIENCE_SECONDS, longest_seconds=_LONGEST_PAUSE_SECONDS)


def _unknown_writers(writers: Iterable[Writer], ledger: LogState, now_ms: int) -> Iterator[LaneWriter]:
    """Producer ids the ledger does not know yet: whoever copies the other way must know them (batches/echoes.py)."""
    for it in writers:
        record = LaneWriter(it.producer_id, it.transactional_id or "", now_ms)
        if record.key() not in ledger.committed:
            yield record


def _pass_the_gate(gate: Lane, state: StateTopics, records: Iterable[LedgerEntry], flow: str) -> None:
    entries = [StateRecord.of_ledger(state.ledger_topic, record) for record in records]
    try:
        write_own(gate, entries)
        gate.settle()  # whoever sees a batch of ours can see in the ledger that it is ours
    except FencedError:
        raise FencedError(
            f"another twinlog runs flow {flow}",
            hint="let one of them run; this one copied nothing",
            flow=flow,
        ) from None


def _progress(gate: Lane, log: LogState, state: StateTopics) -> Mapping[tuple[str, int], int]:
    """Progress, after it was written again where an aborted record lies above it."""
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
        write_own(gate, repairs)
    return own_progress(log.committed, state)


def write_own(gate: Lane, records: list[StateRecord]) -> None:
    """Write through the gate lane in a transaction of its own: whoever fenced us meanwhile makes it fail.

    Leaders are waited for.  Raises TerminalError `state-refused` for a record that the target refuses, TransientError
    where nobody takes it in time, FencedError.
    """

    def committed() -> bool | None:
        refused = gate.write_state(batches(records, clock.now_ms()))
        if not refused:
            gate.commit()
            return True
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
        gate.abort()
        gate.brokers.forget_leaders()
        return None

    until(
        committed,
        lambda: gate.transaction.doubt(f"twinlog's own topics had no leader for {_PATIENCE_SECONDS:.0f} s"),
        seconds=_PATIENCE_SECONDS,
        longest_seconds=_LONGEST_PAUSE_SECONDS,
    )


def own_progress(committed: Mapping[bytes, bytes], state: StateTopics) -> Mapping[tuple[str, int], int]:
    """Progress of this flow's own keys; keys of other connectors, which may share the topic, are left alone."""
    result = {}
    for key, value in committed.items():
        parsed = own_key(state, key)
        offset = parse_offset_value(value) if parsed else None
        if parsed is not None and offset is not None:
            result[parsed.topic, parsed.partition] = offset
    return result


def copy_ends(log: LogState, state: StateTopics) -> Mapping[tuple[str, int], int]:
    """Where the copies ended with the progress of this flow (downstream), where it says so.  Pure."""
    result = {}
    for key, headers in log.headers.items():
        parsed, end = own_key(state, key), parse_copy_end(headers)
        if parsed is not None and end is not None:
            result[parsed.topic, parsed.partition] = end
    return result

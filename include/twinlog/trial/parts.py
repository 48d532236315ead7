"""List the parts that a trial tries on a source and on a target, in this order."""

from __future__ import annotations

from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.values import InternalRecord, NewTopic, value_of
from twinlog.drill.reading import first_records
from twinlog.errors import ClusterRefused
from twinlog.protocol.leader_epochs import ReadUpTo
from twinlog.protocol.retry import LAG_SECONDS, until
from twinlog.state.internal_topics import COMPACT
from twinlog.trial import transactions
from twinlog.trial.bench import Bench, Part
from twinlog.trial.values import Without

_RETENTION, _CHANGED = "retention.ms", "86400000"


def _create(bench: Bench) -> None:
    """Ask for a compacted topic, as the flow's own are."""
    factor, brokers = bench.flow.offset_storage_replication_factor, bench.cluster.broker_count()
    topic = NewTopic(bench.scratch, 1, factor, {"cleanup.policy": COMPACT}, min(factor, brokers))
    bench.cluster.create_topics([topic]).require()
    bench.topic = bench.scratch


def _settings(bench: Bench) -> str:
    found = bench.cluster.topic_configs([bench.topic]).require()[bench.topic]
    return f"compression.type={value_of(found, 'compression.type')}"


def _change(bench: Bench) -> None:
    bench.cluster.alter_topic_configs({bench.topic: {_RETENTION: _CHANGED}}).require()

    def changed() -> bool | None:
        return (
            value_of(bench.cluster.topic_configs([bench.topic]).require()[bench.topic], _RETENTION)
            == _CHANGED
            or None
        )

    # A broker answers by metadata that may lag behind its controller's.
    until(changed, lambda: ClusterRefused(f"{_RETENTION} does not become {_CHANGED}"), seconds=LAG_SECONDS)


def _grow(bench: Bench) -> None:
    bench.cluster.create_partitions({bench.topic: 2}).require()


def _write(bench: Bench) -> None:
    bench.cluster.produce(bench.topic, [InternalRecord(b"try", b"")])


def _ends(bench: Bench) -> None:
    bench.cluster.offsets([bench.at]).require()


def _read(bench: Bench) -> None:
    bench.cluster.read_records({bench.at: 0}, 1)


def _epochs(bench: Bench) -> None:
    if bench.at not in bench.cluster.epoch_ends({bench.at: ReadUpTo(0, 1)}):
        raise ClusterRefused("the leader does not tell (OffsetForLeaderEpoch)")


def _writers(bench: Bench) -> None:
    bench.cluster.open_transactions([bench.at]).require()


def _disks(bench: Bench) -> None:
    bench.cluster.log_dirs()


def _acls(bench: Bench) -> None:
    try:
        bench.cluster.describe_acls()
    except ClusterRefused as error:
        if error.code != "no-authorizer":
            raise


def _quotas(bench: Bench) -> None:
    bench.cluster.describe_quotas()


def _positions(bench: Bench) -> str:
    groups = [it.group for it in bench.cluster.groups()]
    bench.cluster.committed_offsets(groups[:1]).require()
    return f"{len(groups):,} groups are listed"


def _place(bench: Bench) -> None:
    bench.placed = bench.written[0].base_offset if bench.written else 0
    change = {bench.group: {bench.at: OffsetChange(bench.placed, None)}}
    bench.cluster.alter_offsets(change).require()
    found = bench.cluster.committed_offsets([bench.group]).require()[bench.group].get(bench.at)
    if found is None or found.offset != bench.placed:
        raise ClusterRefused(f"position {bench.placed} was set, and {found} is read")


def _clone(bench: Bench) -> str:
    """Read with the scratch group as a drill does with its clones."""
    first = first_records(bench.settings, bench.group, [bench.at]).get(bench.at)
    offset = None if first is None or first.record is None else first.record.offset
    if first is None or offset != bench.placed:
        raise ClusterRefused(f"a consumer that stands at {bench.placed} meets {offset} first")
    return f"the first record after {first.seconds:,.1f} s"


def _delete_topic(bench: Bench) -> None:
    bench.cluster.delete_topics([bench.scratch]).existing()


def _delete_group(bench: Bench) -> None:
    bench.cluster.delete_groups([bench.group]).require()


def _writes_there(bench: Bench) -> bool:
    flow = bench.flow
    on_source = flow.emit_offset_syncs and flow.offset_syncs_topic_location == "source"
    return on_source or flow.reverse_heartbeats is not None


def _has_topic(bench: Bench) -> bool:
    return bool(bench.topic)


MAKE = "make a topic"
READ = "read records"
TRANSACT = "write in a transaction"
SEND = "write batches of each codec"
PLACE = "set and read a group's position"

BOTH = (
    Part("read ACLs", Without.ACLS, _acls, useful=lambda it: it.flow.sync_topic_acls),
    Part("read quotas", Without.QUOTAS, _quotas, useful=lambda it: it.flow.metadata.quotas),
)

SOURCE = (
    Part(MAKE, Without.SYNCS_AND_BEATS, _create, useful=_writes_there),
    Part("write idempotently", Without.SYNCS_AND_BEATS, _write, (MAKE,)),
    Part("see where a log begins and ends", Without.NOTHING, _ends, useful=_has_topic),
    Part("read committed records", Without.NOTHING, _read, useful=_has_topic),
    Part("see where a leader epoch ends", Without.SEEN_IF_SHORTER, _epochs, useful=_has_topic),
    Part("read a topic's settings", Without.NEW_TOPICS, _settings, useful=_has_topic),
    Part("see who writes in a transaction", Without.OWNER, _writers, useful=_has_topic),
    Part("see the sizes of logs", Without.LANES, _disks),
    Part(
        "list groups, read a position", Without.GROUPS, _positions, useful=lambda it: it.flow.emit_checkpoints
    ),
    *BOTH,
)

TARGET = (
    Part(MAKE, Without.NEW_TOPICS, _create),
    Part("read a topic's settings", Without.CONFIGS, _settings, (MAKE,)),
    Part(
        "change a topic's setting", Without.CONFIGS, _change, (MAKE,), lambda it: it.flow.sync_topic_configs
    ),
    Part("add a partition", Without.NEW_PARTITIONS, _grow, (MAKE,), lambda it: it.flow.refresh_topics),
    Part("write idempotently", Without.NOTHING, _write, (MAKE,)),
    Part(READ, Without.NOTHING, _read, (MAKE,)),
    Part(TRANSACT, Without.NOTHING, transactions.transact, (MAKE,)),
    Part(SEND, Without.CODECS, transactions.codecs, (TRANSACT,)),
    Part("get exact offsets", Without.UNSAFE, transactions.exact, (TRANSACT, READ)),
    Part("pass batches on unchanged", Without.OTHER_BATCHES, transactions.unchanged, (TRANSACT, READ)),
    Part("read committed records alone", Without.UNSAFE, transactions.committed, (TRANSACT, READ)),
    Part("send a batch twice", Without.UNSAFE, transactions.twice, (TRANSACT,)),
    Part("fence an older writer", Without.UNSAFE, transactions.fence, (TRANSACT,)),
    Part("commit often, and much", Without.NOTHING, transactions.pace, (TRANSACT,)),
    Part("see where a leader epoch ends", Without.STATE_ANEW, _epochs, (MAKE,)),
    Part(PLACE, Without.GROUPS, _place, (MAKE,)),
    Part("read with a drill's clone", Without.DRILLS, _clone, (TRANSACT, PLACE)),
    Part("see how full disks are", Without.DISKS, _disks),
    *BOTH,
)

TIDY = {
    MAKE: Part("delete a topic", Without.REBUILDS, _delete_topic),
    PLACE: Part("delete a group", Without.CLONES, _delete_group),
}
"""Undoes each part that was tried, whatever became of it."""

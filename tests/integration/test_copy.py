"""Every kind of record arrives as it was, in order, once.  Costs about a minute, brokers included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_audit import delete_records

from lab import (
    NOW,
    VARIED,
    Seen,
    ThreadRunner,
    commit_group,
    create_topic,
    cycle,
    delete_topic,
    flow_of,
    grow_topic,
    produce,
    produce_transaction,
    read,
    read_with_offsets,
    wait_until,
)
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.audit.verdict import AuditVerdict
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.values import Compression
from twinlog.groups import checkpoints
from twinlog.monitoring import status
from twinlog.offsets.offset_map import Translation
from twinlog.state.ledger import read_ledger
from twinlog.state.progress import read_maps, read_progress


def many(count: int, size: int = 100, start: int = 0) -> list[Seen]:
    """Records that differ."""
    return [Seen(b"%d" % n, b"%08d" % n + b"x" * size, NOW + n) for n in range(start, start + count)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_kinds_of_records_in_every_codec(
    codec: str, cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Key, value, null against empty, headers in order with duplicates and nulls, timestamps: all equal."""
    topic = create_topic(cluster_a, unique_topic(codec))
    records = VARIED + many(2000)
    produce(cluster_a, topic, records, compression_type=codec)
    result = cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic]))
    assert (result.state, result.records) == ("done", len(records))
    assert read(cluster_b, f"A.{topic}") == records


def test_batches_are_compressed_on_their_way(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """All records arrive as they are, in a tenth of the bytes; the map and the audit do not notice."""
    topic = create_topic(cluster_a, unique_topic("packed"), 2)
    for partition, codec in enumerate(("none", "gzip")):
        produce(cluster_a, topic, VARIED + many(2000), partition, compression_type=codec)
    produce_transaction(cluster_a, topic, many(20), 0, commit=False)
    produce_transaction(cluster_a, topic, many(20), 0)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__compression__type="zstd")
    plain = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    assert (Compression.ZSTD, Compression.PRODUCER) == (flow.copy.compression, plain.copy.compression)
    result = cycle(flow)
    assert ("done", 2 * len(VARIED) + 4020) == (result.state, result.records)
    assert result.bytes < 4020 * 100 / 10
    for partition in range(2):
        assert read(cluster_a, topic, partition) == read(cluster_b, f"A.{topic}", partition)
    with open_clusters(flow) as clusters:
        proved = audit.run(flow, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL))
    assert (True, result.records) == (proved.equal, proved.records)


def test_append_time_is_what_the_copy_shows(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A LogAppendTime topic's records keep the time a consumer of the source sees."""
    topic = create_topic(cluster_a, unique_topic("append"), message_timestamp_type="LogAppendTime")
    produce(cluster_a, topic, many(50), compression_type="lz4")
    cycle(
        flow_of(tmp_path, cluster_a, cluster_b, [topic], config__properties__exclude="message.timestamp.type")
    )
    assert read(cluster_b, f"A.{topic}") == read(cluster_a, topic)


def test_committed_transactions_are_copied_and_aborted_ones_are_not(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The copy holds what a read_committed consumer of the source sees, and nothing under its aborted records."""
    topic = create_topic(cluster_a, unique_topic("txn"))
    for number in range(6):
        produce_transaction(cluster_a, topic, many(20, start=number * 100), commit=number % 2 == 0)
        produce(cluster_a, topic, many(3, start=number * 1000))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    first = cycle(flow)
    second = cycle(flow)
    assert (first.records, second.state) == (3 * 20 + 6 * 3, "nothing")
    assert read(cluster_b, f"A.{topic}") == read(cluster_a, topic)
    assert read(cluster_b, f"A.{topic}", isolation="read_uncommitted") == read(cluster_a, topic)


def test_the_map_says_where_every_record_went(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Translating each record's upstream offset gives the downstream offset at which that record lies."""
    topic = create_topic(cluster_a, unique_topic("map"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    for number in range(4):
        produce(cluster_a, topic, many(30, start=number * 1000))
        produce_transaction(cluster_a, topic, many(7, start=number * 100), commit=number % 2 == 0)
        cycle(flow)
    with open_clusters(flow) as clusters:
        (offset_map,) = [
            found for life, found in read_maps(flow, clusters.target).items() if life.topic == topic
        ]
        progress = read_progress(flow, clusters.target)[topic, 0]
    upstream, downstream = read_with_offsets(cluster_a, topic), read_with_offsets(cluster_b, f"A.{topic}")
    assert [seen for _, seen in upstream] == [seen for _, seen in downstream]
    translated = [offset_map.translate(offset) for offset, _ in upstream]
    assert translated == [Translation(offset, True, False) for offset, _ in downstream]
    assert progress >= upstream[-1][0]


def test_records_near_a_megabyte_and_beyond_the_fetch_size(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A batch larger than a partition's share of a fetch is fetched all the same."""
    topic = create_topic(cluster_a, unique_topic("large"), 2)
    for partition in (0, 1):
        produce(cluster_a, topic, [Seen(None, bytes([65 + n]) * 999_000, NOW) for n in range(6)], partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__partition__fetch__bytes="65536")
    assert cycle(flow).records == 12
    for partition in (0, 1):
        assert read(cluster_b, f"A.{topic}", partition) == read(cluster_a, topic, partition)


def test_partitions_and_topics_made_between_cycles(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Growth and new topics are there with the next cycle, nothing is copied twice."""
    stem = unique_topic("grow")
    topic = create_topic(cluster_a, f"{stem}-1")
    produce(cluster_a, topic, many(10))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [f"{stem}-.*"])
    cycle(flow)
    grow_topic(cluster_a, topic, 3)
    other = create_topic(cluster_a, f"{stem}-2")
    for partition in range(3):
        produce(cluster_a, topic, many(5, start=50), partition)
    produce(cluster_a, other, many(4))
    result = cycle(flow)
    assert result.records == 3 * 5 + 4
    for name, partition in [(topic, 0), (topic, 1), (topic, 2), (other, 0)]:
        assert read(cluster_b, f"A.{name}", partition) == read(cluster_a, name, partition)


def test_a_target_with_a_smaller_limit_gets_split_batches(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Batches above the copy's max.message.bytes are split; every record is there."""
    topic = create_topic(cluster_a, unique_topic("split"))
    create_topic(cluster_b, f"A.{topic}", max_message_bytes="20000")
    records = many(2000, size=500)
    produce(cluster_a, topic, records, linger_ms=100, batch_size=500_000)
    result = cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic]))
    assert (result.state, read(cluster_b, f"A.{topic}")) == ("done", records)


def test_a_target_that_stores_uncompressed_gets_split_batches(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A batch within the limit on its way may be beyond it as it is stored: no record is at fault for that."""
    topic = create_topic(cluster_a, unique_topic("stored"), 2)
    create_topic(cluster_b, f"A.{topic}", 2, compression_type="uncompressed")
    records = many(5000, size=1000)
    large = {"linger_ms": 300, "batch_size": 4_000_000, "message_max_bytes": 5_000_000}
    produce(cluster_a, topic, records, 0, compression_type="zstd", **large)
    produce(cluster_a, topic, many(7), 1)
    result = cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic]))
    assert ("done", []) == (result.state, [it.error for it in result.partitions if it.error])
    assert records == read(cluster_b, f"A.{topic}", 0)
    assert many(7) == read(cluster_b, f"A.{topic}", 1)


def test_a_record_too_large_for_the_target_stops_its_partition_only(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """What lies before it is copied, the message names its offset, the other partition goes on."""
    topic = create_topic(cluster_a, unique_topic("poison"), 2)
    create_topic(cluster_b, f"A.{topic}", 2, max_message_bytes="20000")
    produce(cluster_a, topic, [*many(5), Seen(b"big", b"x" * 50_000, NOW), *many(5)], 0)
    produce(cluster_a, topic, many(7), 1)
    result = cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic]))
    errors = {item.partition: (item.error_code, item.copied_records) for item in result.partitions}
    assert (result.state, errors) == ("failed", {0: ("poison-record", 5), 1: ("", 7)})
    assert "upstream offset 5" in result.partitions[0].error
    assert read(cluster_b, f"A.{topic}", 0) == many(5)


def test_a_record_whose_time_the_copy_refuses_names_time_and_configs(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Whoever reads the stop knows which record, which timestamp, which configs of which topic, and the other way."""
    topic = create_topic(cluster_a, unique_topic("time"), message_timestamp_after_max_ms=str(2**62))
    late = Seen(b"t", b"t", NOW + 10**9)
    produce(cluster_a, topic, [*many(5), late])
    create_topic(cluster_b, f"A.{topic}")
    result = cycle(flow_of(tmp_path, cluster_a, cluster_b, [topic]))
    (stopped,) = result.partitions
    named = (
        f"{topic}-0 at upstream offset 5",
        str(late.timestamp),
        "message.timestamp.before.max.ms or message.timestamp.after.max.ms of A." + topic,
        "twinlog.on.poison.record=quarantine",
    )
    assert ("poison-record", []) == (stopped.error_code, [it for it in named if it not in stopped.error])


@pytest.mark.parametrize("kind", ["size", "time"])
def test_quarantine_leaves_the_record_out_and_says_so(
    kind: str, cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """With twinlog.on.poison.record=quarantine the others go on; the record is written aside with its origin."""
    topic = create_topic(cluster_a, unique_topic("quarantine"), message_timestamp_after_max_ms=str(2**62))
    create_topic(cluster_b, f"A.{topic}", max_message_bytes="20000")
    poison = Seen(b"big", b"x" * 50_000, NOW) if kind == "size" else Seen(b"t", b"t", NOW + 10**9)
    produce(cluster_a, topic, [*many(5), poison, *many(5)])
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__on__poison__record="quarantine")
    result = cycle(flow)
    assert (result.state, result.partitions[0].quarantined) == ("done", (5,))
    assert read(cluster_b, f"A.{topic}") == [*many(5), *many(5)]
    aside = [
        (seen, headers)
        for seen in read(cluster_b, flow.quarantine_topic)
        if (headers := dict(seen.headers)).get("twinlog.topic") == topic.encode()
    ]
    ((seen, headers),) = aside
    assert (seen.key, seen.value) == (poison.key, poison.value)
    assert (headers["twinlog.offset"], headers["twinlog.timestamp"]) == (b"5", b"%d" % poison.timestamp)
    with open_clusters(flow) as clusters:
        noted = read_ledger(flow, clusters.target).quarantined
    assert [5] == [it.offset for it in noted if it.topic == topic]


def test_a_source_topic_deleted_between_plan_and_copy_stops_that_topic_only(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A source topic that disappears while its range waits is reported; the other one is copied."""
    from confluent_kafka.admin import AdminClient

    gone, stays = (
        create_topic(cluster_a, unique_topic("gone")),
        create_topic(cluster_a, unique_topic("stays")),
    )
    produce(cluster_a, gone, many(10))
    produce(cluster_a, stays, many(10))
    deleted: list[str] = []

    def delete(_: object) -> None:
        if not deleted:
            deleted.append(gone)
            admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
            for future in admin.delete_topics([gone]).values():
                future.result()
            wait_until(lambda: gone not in admin.list_topics(timeout=10).topics)

    flow = flow_of(tmp_path, cluster_a, cluster_b, [gone, stays], twinlog__lanes="1")
    result = cycle(flow, ThreadRunner(before=delete))
    outcome = {item.topic: (item.error_code, item.copied_records) for item in result.partitions}
    assert outcome == {gone: ("topic-deleted", 0), stays: ("", 10)}


def test_a_bounded_copy_ends_before_the_time_given(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """`until` is exclusive, cuts inside a batch, and the next copy goes on from there."""
    topic = create_topic(cluster_a, unique_topic("until"))
    produce(cluster_a, topic, many(100), linger_ms=50)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    assert cycle(flow, until_ms=NOW + 40).records == 40
    assert read(cluster_b, f"A.{topic}") == many(40)
    assert cycle(flow).records == 60
    assert read(cluster_b, f"A.{topic}") == many(100)


def test_a_copy_begins_with_the_records_of_the_last_hours(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """`twinlog.start` finds them inside a batch; what comes later follows, the rest is no lag and equal to nothing."""
    topic = create_topic(cluster_a, unique_topic("start"), 2)
    hour = 3_600_000
    aged = [Seen(b"%d" % it, b"v", NOW - (9 - it) * hour) for it in range(10)]
    produce(cluster_a, topic, aged, linger_ms=50)
    produce(cluster_a, topic, aged[:5], 1)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__start="150m")
    assert 3 == cycle(flow).records
    assert ([*aged[7:]], []) == (read(cluster_b, f"A.{topic}"), read(cluster_b, f"A.{topic}", 1))
    commit_group(cluster_a, f"behind-{topic}", topic, 2)
    commit_group(cluster_a, f"within-{topic}", topic, 8)
    produce(cluster_a, topic, many(4), 1)
    assert 4 == cycle(flow).records
    assert many(4) == read(cluster_b, f"A.{topic}", 1)
    with open_clusters(flow) as clusters:
        assert 0 == status.run(flow, clusters).lag_records
        found = audit.run(flow, clusters, LocalAuditRunner())
        rows = checkpoints.run(flow, clusters, dry_run=True).rows
    assert (AuditVerdict.EQUAL, 7) == (found.verdict, found.records)
    positions = {it.group: it.downstream_offset for it in rows}
    assert {f"behind-{topic}": 0, f"within-{topic}": 1} == positions


def test_what_is_written_while_a_copy_cannot_be_made_is_copied(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """With `latest` the copy begins where the flow first saw its topic, though its name was taken on B."""
    stem = unique_topic("s8").replace("-", "")
    topic = create_topic(cluster_a, f"{stem}.x")
    taken = create_topic(cluster_b, f"A_{stem}_x")
    produce(cluster_a, topic, many(100))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__start="latest")
    assert 0 == cycle(flow).records
    produce(cluster_a, topic, many(50, start=100))
    delete_topic(cluster_b, taken)
    assert 50 == cycle(flow).records
    assert many(50, start=100) == read(cluster_b, f"A.{topic}")


def test_what_expires_before_a_copy_can_be_made_is_a_gap(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Though the flow has no copy at all yet: its beginning was noted, and the source deleted what lies behind it."""
    stem = unique_topic("s9").replace("-", "")
    topic = create_topic(cluster_a, f"{stem}.x")
    taken = create_topic(cluster_b, f"first_{stem}_x")
    flow = flow_of(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
        alias="first",
        twinlog__start="7d",
        twinlog__on__gap="record-and-continue",
    )
    cycle(flow)
    produce(cluster_a, topic, many(50))
    delete_records(cluster_a, topic, 20)
    cycle(flow)
    delete_topic(cluster_b, taken)
    assert 30 == cycle(flow).records
    with open_clusters(flow) as clusters:
        gaps = read_ledger(flow, clusters.target).gaps
    assert [(topic, 0, 19, True)] == [
        (it.topic, it.first_offset, it.last_offset, it.copied_past) for it in gaps
    ]
    assert many(30, start=20) == read(cluster_b, f"first.{topic}")


def test_what_was_copied_is_there_when_the_cycle_ends(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A commit is answered before its markers are written: nobody who reads right after a cycle reads less."""
    topic = create_topic(cluster_a, unique_topic("seen"), 8)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    for number in range(10):
        for partition in range(8):
            produce(cluster_a, topic, many(3), partition)
        assert cycle(flow).records == 24
        with open_clusters(flow) as clusters:
            maps = read_maps(flow, clusters.target)
            progress = read_progress(flow, clusters.target)
        ends = {life.partition: found.end_upstream for life, found in maps.items() if life.topic == topic}
        assert ends == dict.fromkeys(range(8), (number + 1) * 3)
        assert {progress[topic, partition] for partition in range(8)} == {number * 3 + 2}


TRANSFORMS = {
    "A->B__transforms": "live, open, clean",
    "A->B__transforms__live__type": "org.apache.kafka.connect.transforms.Filter",
    "A->B__transforms__live__predicate": "gone",
    "A->B__transforms__open__type": "Filter",
    "A->B__transforms__open__predicate": "marked",
    "A->B__transforms__clean__type": "DropHeaders",
    "A->B__transforms__clean__headers": "trace",
    "A->B__predicates": "gone, marked",
    "A->B__predicates__gone__type": "RecordIsTombstone",
    "A->B__predicates__marked__type": "HasHeaderKey",
    "A->B__predicates__marked__name": "internal",
}


def kinds(start: int) -> list[Seen]:
    """Records that the transforms leave alone, change and drop; the last ones are all dropped."""
    trace, internal = ("trace", b"1"), ("internal", None)
    each = [
        Seen(b"%d" % n, None if n % 5 == 0 else b"v%d" % n, NOW + n, headers)
        for n, headers in enumerate(
            [(), (("a", b"x"), trace, trace), (internal,), (("a", None),)] * 20, start
        )
    ]
    return [*each, *(Seen(b"gone", None, NOW) for _ in range(10))]


def left_of(records: list[Seen]) -> list[Seen]:
    """Return what the transforms leave."""
    return [
        replace(it, headers=tuple(one for one in it.headers if one[0] != "trace"))
        for it in records
        if it.value is not None and "internal" not in dict(it.headers)
    ]


def test_a_copy_through_transforms_is_mapped_translated_and_audited(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Dropped records are gaps: nothing is behind, groups are placed before and behind them.

    With other transforms, what was copied before is not called equal nor different.
    """
    topic = create_topic(cluster_a, unique_topic("transformed"))
    plain = create_topic(cluster_a, unique_topic("plain"))
    records = [*kinds(0), *kinds(1000)]
    for start in (0, 1000):
        produce(cluster_a, topic, kinds(start), compression_type="lz4")
    produce_transaction(cluster_a, topic, kinds(2000), commit=False)
    produce(cluster_a, plain, records)
    only = {
        **TRANSFORMS,
        "A->B__transforms": "others, live, open, clean",
        "A->B__transforms__others__type": "Filter",
        "A->B__transforms__others__predicate": "other",
        "A->B__predicates": "gone, marked, other",
        "A->B__predicates__other__type": "TopicNameMatches",
        "A->B__predicates__other__pattern": "A[.]no-such-topic",
    }
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic, plain], **only)
    result, again = cycle(flow), cycle(flow)
    assert ("done", "nothing") == (result.state, again.state)
    for each in (topic, plain):
        assert left_of(records) == read(cluster_b, f"A.{each}")
    with open_clusters(flow) as clusters:
        (offset_map,) = [it for life, it in read_maps(flow, clusters.target).items() if life.topic == topic]
        upstream = [(offset, seen) for offset, seen in read_with_offsets(cluster_a, topic) if left_of([seen])]
        downstream = read_with_offsets(cluster_b, f"A.{topic}")
        assert [Translation(offset, True, False) for offset, _ in downstream] == [
            offset_map.translate(offset) for offset, _ in upstream
        ]
        report = audit.run(flow, clusters, LocalAuditRunner())
        assert (AuditVerdict.EQUAL, True, 2 * len(downstream)) == (
            report.verdict,
            report.proved,
            report.records,
        )
        assert 0 == status.run(flow, clusters).lag_records
        for group, offset in (("behind", len(records)), ("before", upstream[-1][0])):
            commit_group(cluster_a, f"{group}-{topic}", topic, offset)
        rows = checkpoints.run(flow, clusters, dry_run=True).rows
    last = downstream[-1][0]
    assert {f"behind-{topic}": last + 1, f"before-{topic}": last} == {
        it.group: it.downstream_offset for it in rows if it.group.endswith(topic)
    }
    changed = {**only, "A->B__transforms__clean__headers": "a"}
    other = flow_of(tmp_path, cluster_a, cluster_b, [topic, plain], **changed)
    with open_clusters(other) as clusters:
        report = audit.run(other, clusters, LocalAuditRunner(), AuditRequest(AuditMode.FULL))
    assert (0, [("other-chain", 2 * len(downstream))]) == (
        report.difference_count,
        [(it.reason, it.records) for it in report.unproved],
    )

"""Rules that route records to another topic, on real brokers: copied, mapped, audited, and what goes wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from test_audit import FULL, audited, delete_topic

from lab import Seen, create_topic, cycle, flow_of, produce, read, read_with_offsets
from twinlog.audit.result import AuditResult
from twinlog.audit.verdict import AuditVerdict
from twinlog.cluster.open import open_clusters
from twinlog.formats.ledger.audit import DifferenceKind as Kind
from twinlog.formats.mm2.connect_offset import partition_for
from twinlog.monitoring import status
from twinlog.offsets.offset_map import Translation
from twinlog.state.progress import read_maps

NOW = int(time.time() * 1000)
RULES = "A->B__twinlog__transform__rules__"


def order(number: int) -> Seen:
    """Every third is severe, every fifth has no key, every seventh is a tombstone."""
    document = {"id": number, "severity": "high" if number % 3 == 0 else "low", "card": f"4111-{number:04}"}
    value = None if number % 7 == 0 else json.dumps(document).encode()
    return Seen(None if number % 5 == 0 else b"k%d" % (number % 11), value, NOW + number, (("h", b"1"),))


def is_routed(record: Seen) -> bool:
    """Say whether the rule of `alerting` routes a record."""
    return record.value is not None and json.loads(record.value)["severity"] == "high"


def masked(record: Seen) -> Seen:
    """Return a record as the rule before leaves it."""
    if record.value is None:
        return record
    value = json.dumps({**json.loads(record.value), "card": ""}).encode()
    return Seen(record.key, value, record.timestamp, record.headers)


def alerting(topics: str, to: str, **more: str) -> dict[str, str]:
    """Return the lines of a file that mask cards, then route what is severe."""
    return {
        f"{RULES}a__topics": topics,
        f"{RULES}a__mask": "card",
        f"{RULES}b__topics": topics,
        f"{RULES}b__route__if__field": "severity=high",
        f"{RULES}b__route__to": to,
        f"{RULES}b__route__partitioner": "key",
        **more,
    }


def test_two_topics_are_routed_into_one_by_key(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Each record once, masked, with its origin, in the order of its source partition; the map has gaps there."""
    one, two = (create_topic(cluster_a, unique_topic(it), n) for it, n in (("one", 2), ("two", 3)))
    to = unique_topic("alerts")
    written = {
        (topic, partition): [order(100 * partition + n) for n in range(1, 90)]
        for topic, count in ((one, 2), (two, 3))
        for partition in range(count)
    }
    for (topic, partition), records in written.items():
        produce(cluster_a, topic, records[:50], partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [one, two], **alerting(f"{one}, {two}", to))
    first = cycle(flow)
    for (topic, partition), records in written.items():
        produce(cluster_a, topic, records[50:], partition, compression_type="lz4")
    assert ["done", "done", "nothing"] == [first.state, *(cycle(flow).state for _ in range(2))]
    for (topic, partition), records in written.items():
        assert [masked(it) for it in records if not is_routed(it)] == read(cluster_b, f"A.{topic}", partition)
    routed = {number: read(cluster_b, to, number) for number in range(3)}
    for (topic, partition), records in written.items():
        expected: dict[int, list[Seen]] = {0: [], 1: [], 2: []}
        for offset, it in enumerate(records):
            if is_routed(it):
                number = partition if it.key is None else partition_for(it.key, 3)
                expected[number].append(_with_offset(masked(it), offset))
        for number, found in routed.items():
            mine = [it for it in found if _origin(it)[:4] == ("A", topic, _origin(it)[2], str(partition))]
            assert expected[number] == [_with_offset(_own(it), int(_origin(it)[4])) for it in mine]
    good, count = audited(flow), sum(map(len, routed.values()))
    assert (True, True, count) == (good.equal, good.proved, sum(it.equal for it in good.routed))
    with open_clusters(flow) as clusters:
        assert 0 == status.run(flow, clusters).lag_records
        maps = {(it.topic, it.partition): found for it, found in read_maps(flow, clusters.target).items()}
    for (topic, partition), records in written.items():
        upstream = [
            offset for offset, it in read_with_offsets(cluster_a, topic, partition) if not is_routed(it)
        ]
        downstream = [offset for offset, _ in read_with_offsets(cluster_b, f"A.{topic}", partition)]
        assert [Translation(it, True, False) for it in downstream] == [
            maps[topic, partition].translate(it) for it in upstream
        ]
        gap = next(n for n, it in enumerate(records) if is_routed(it))
        following = next(n for n in range(gap, 90) if not is_routed(records[n]))
        assert maps[topic, partition].translate(gap) == maps[topic, partition].translate(following)


def told(result: AuditResult) -> list[tuple[Kind, str, int, int | None]]:
    """Return kind and place of each difference."""
    return [(it.kind, it.topic, it.partition, it.upstream_offset) for it in result.differences]


def write_all(cluster: Any, topic: str, records: dict[int, list[Seen]]) -> None:
    """Make a topic anew with these records."""
    delete_topic(cluster, topic)
    create_topic(cluster, topic, len(records))
    for number, some in records.items():
        produce(cluster, topic, some, number)


def test_each_damage_of_a_routed_record_is_found(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Changed, missing, doubled, moved, and written by another; by an incremental audit, too, of what is new to it."""
    topic = create_topic(cluster_a, unique_topic("damaged"), 3)
    to = unique_topic("alerts")
    for partition in range(3):
        produce(cluster_a, topic, [order(100 * partition + n) for n in range(1, 90)], partition)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **alerting(topic, to))
    assert "done" == cycle(flow).state
    whole = {number: read(cluster_b, to, number) for number in range(3)}
    at = max(whole, key=lambda number: len(whole[number]))
    records = whole[at]
    third = records[3]
    place = (topic, int(_origin(third)[3]), int(_origin(third)[4]))
    other = replace(third, value=third.value.replace(b"high", b"hiGh"))
    by_hand = Seen(b"k", b"by hand", NOW)
    write_all(cluster_b, to, {**whole, at: [*records[:3], other, *records[4:]]})
    assert [(Kind.VALUE, *place)] == told(audited(flow)), "by an incremental audit of what is new"
    assert [(Kind.VALUE, *place)] == told(audited(flow)), "and it stands until a full one"
    write_all(cluster_b, to, whole)
    good, count = audited(flow, FULL), sum(map(len, whole.values()))
    assert (True, True, [(count, count, 0)]) == (
        good.equal,
        good.proved,
        [(it.records, it.equal, it.differences) for it in good.routed],
    )
    late = replace(third, headers=(*third.headers[:-1], ("twinlog.offset", b"5000")))
    for made, expected in (
        ([*records[:3], other, *records[4:]], [(Kind.VALUE, *place)]),
        ([*records[:3], replace(third, timestamp=5), *records[4:]], [(Kind.TIMESTAMP, *place)]),
        ([*records[:3], *records[4:]], [(Kind.MISSING, *place)]),
        ([*records, third], [(Kind.EXTRA, *place)]),
        ([*records[:3], *records[4:], third], [(Kind.ORDER, *place)]),
        ([*records, by_hand], [(Kind.EXTRA, to, at, None)]),
        ([*records, late], [(Kind.EXTRA, to, at, None)]),
    ):
        write_all(cluster_b, to, {**whole, at: made})
        found = audited(flow, FULL)
        assert (False, AuditVerdict.DIFFERENT) == (found.equal, found.verdict)
        assert expected == told(found)
    assert [(Kind.EXTRA, to, at, None)] == told(audited(flow)), "each audit reads the routed topic whole"
    write_all(cluster_b, to, whole)
    assert audited(flow, FULL).equal
    admin = AdminClient({"bootstrap.servers": cluster_b.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(to, at, 2)]).values():
        future.result()
    expired = audited(flow, FULL)
    assert (False, AuditVerdict.ROUTED_EXPIRED, 2) == (
        expired.equal,
        expired.verdict,
        sum(it.expired for it in expired.routed),
    )
    assert audited(flow).equal, "what was proved before it expired stays proved"


def _origin(record: Seen) -> tuple[str, ...]:
    return tuple((content or b"").decode() for _, content in record.headers[-5:])


def _own(record: Seen) -> Seen:
    return Seen(record.key, record.value, record.timestamp, record.headers[:-5])


def _with_offset(record: Seen, offset: int) -> tuple[int, Seen]:
    return offset, record

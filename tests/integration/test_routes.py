"""Rules that route records to another topic, on real brokers: copied, mapped, audited, and what goes wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import Seen, create_topic, cycle, flow_of, produce, read, read_with_offsets
from twinlog.cluster.open import open_clusters
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


def _origin(record: Seen) -> tuple[str, ...]:
    return tuple((content or b"").decode() for _, content in record.headers[-5:])


def _own(record: Seen) -> Seen:
    return Seen(record.key, record.value, record.timestamp, record.headers[:-5])


def _with_offset(record: Seen, offset: int) -> tuple[int, Seen]:
    return offset, record

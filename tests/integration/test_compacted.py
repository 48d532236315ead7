"""Compacted topics, with the gaps a real log cleaner leaves.  Costs about half a minute, brokers included."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from lab import (
    Seen,
    alter_configs,
    create_topic,
    cycle,
    flow_of,
    produce,
    produce_transaction,
    read_with_offsets,
)
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.offsets.offset_map import OffsetMap, Translation
from twinlog.state.progress import read_maps

CLOCK = {"start": 0}
"""Where record time begins (ms): for each test a little ahead of the clock, and so of its transaction markers."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Log = list[tuple[int, Seen]]
"""A partition as (offset, record)."""


@pytest.fixture(autouse=True)
def quick_cleaner(cluster_a: Any) -> Iterator[None]:
    """The source's log cleaner looks for work all the time, instead of every 15 s."""
    CLOCK["start"] = int(time.time() * 1000) + 60_000
    alter_configs(cluster_a, ResourceType.BROKER, "1", log_cleaner_backoff_ms="100")
    yield
    alter_configs(cluster_a, ResourceType.BROKER, "1", log_cleaner_backoff_ms=None)


def compacted_topic(cluster: Any, name: str, cleanup_policy: str = "compact") -> str:
    """A topic whose segments roll when record time moves on by a second, cleaned as soon as there is anything."""
    return create_topic(
        cluster, name, cleanup_policy=cleanup_policy, min_cleanable_dirty_ratio="0.01", segment_ms="1000"
    )


def updates(chance: random.Random, phase: int) -> list[list[Seen]]:
    """Eight batches of updates: a few hot keys, many that occur once, some tombstones, some headers."""
    batches = []
    for number in range(8):
        time_ms = CLOCK["start"] + (phase * 100 + number) * 2000
        batch = []
        for n in range(100):
            hot = chance.random() < 0.6
            key = b"hot-%d" % chance.randrange(12) if hot else b"%d-%d-%d" % (phase, number, n)
            value = None if chance.random() < 0.1 else b"%d " % n * chance.randrange(40)
            headers = (("n", b"%d" % n), ("n", None)) if n % 7 == 0 else ()
            batch.append(Seen(key, value, time_ms + n, headers))
        batches.append(batch)
    return batches


def last_word(phase: int) -> Seen:
    """A record so late that it opens a new segment: everything before it may be cleaned."""
    return Seen(b"end of %d" % phase, b"", CLOCK["start"] + (phase * 100 + 50) * 2000)


def survivors(log: Log) -> Log:
    """What Kafka promises to keep: the last record of each key, tombstones for a day."""
    last = {seen.key: offset for offset, seen in log}
    return [(offset, seen) for offset, seen in log if last[seen.key] == offset]


def wait_for_cleaner(cluster: Any, topic: str, expected: Log, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while read_with_offsets(cluster, topic) != expected:
        assert time.monotonic() < deadline, f"{topic} was not compacted within {seconds} s"
        time.sleep(0.3)


def maps_of(flow: FlowSettings) -> Mapping[str, OffsetMap]:
    with open_clusters(flow) as clusters:
        return {life.topic: found for life, found in read_maps(flow, clusters.target).items()}


def translations(upstream: Sequence[int], downstream: Sequence[int], end: int) -> list[Translation]:
    """By definition: where each upstream offset up to the copy's end is to go on."""
    places = dict(zip(upstream, downstream, strict=True))
    position, result = downstream[-1] + 1, []
    for offset in range(end, -1, -1):
        position = places.get(offset, position)
        result.append(Translation(position, True, False))
    return result[::-1]


@pytest.mark.long
def test_gaps_in_every_codec(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Survivors arrive equal and in order, tombstones with them; every upstream offset translates exactly.

    A second cycle, after compaction has removed most of what was copied, copies only what is new.
    """
    topics = {codec: compacted_topic(cluster_a, unique_topic(codec)) for codec in CODECS}
    flow = flow_of(
        tmp_path, cluster_a, cluster_b, topics.values(), config__properties__exclude="cleanup.policy"
    )
    sources: dict[str, Log] = {topic: [] for topic in topics.values()}
    copies: dict[str, Log] = {topic: [] for topic in topics.values()}
    for phase in range(2):
        for codec, topic in topics.items():
            chance = random.Random(f"{codec}-{phase}")
            begin = 801 * phase
            written = [*updates(chance, phase), [last_word(phase)]]
            for batch in written:
                produce(cluster_a, topic, batch, compression_type=codec)
            log = sources[topic] + list(enumerate((seen for batch in written for seen in batch), begin))
            sources[topic] = survivors(log)
            copies[topic] += [(offset, seen) for offset, seen in sources[topic] if offset >= begin]
        for topic, log in sources.items():
            wait_for_cleaner(cluster_a, topic, log)
        result = cycle(flow)
        assert result.state == "done", result.error
        assert {it.topic: it.copied_records for it in result.partitions} == {
            topic: sum(offset >= 801 * phase for offset, _ in log) for topic, log in copies.items()
        }
        maps = maps_of(flow)
        for topic, log in copies.items():
            arrived = read_with_offsets(cluster_b, f"A.{topic}")
            assert [seen for _, seen in arrived] == [seen for _, seen in log]
            end = 801 * (phase + 1)
            expected = translations([offset for offset, _ in log], [offset for offset, _ in arrived], end)
            assert [maps[topic].translate(offset) for offset in range(end + 1)] == expected
    assert cycle(flow).state == "nothing"
    kept = copies[topics["none"]]
    assert any(seen.value is None for _, seen in kept) and len(kept) < 1400


def test_gaps_among_transactions(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Aborted records, markers and replaced values leave their gaps together; the map still is exact."""
    topic = compacted_topic(cluster_a, unique_topic("transactions"))
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], config__properties__exclude="cleanup.policy")
    for number, batch in enumerate(updates(random.Random(1), 0)):
        produce_transaction(cluster_a, topic, batch[:60], commit=number % 3 != 2)
        produce(cluster_a, topic, batch[60:], compression_type="lz4")
    produce(cluster_a, topic, [last_word(0)])
    log = survivors(read_with_offsets(cluster_a, topic))
    wait_for_cleaner(cluster_a, topic, log)
    assert cycle(flow).records == len(log)
    arrived = read_with_offsets(cluster_b, f"A.{topic}")
    assert [seen for _, seen in arrived] == [seen for _, seen in log]
    end = log[-1][0] + 1
    expected = translations([offset for offset, _ in log], [offset for offset, _ in arrived], end)
    translate = maps_of(flow)[topic].translate
    assert [translate(offset) for offset in range(end + 1)] == expected


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_compaction_behind_an_unfinished_copy(
    codec: str, cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A copy that stopped inside a batch goes on behind it, though cleaning has rewritten that batch since."""
    topic = compacted_topic(cluster_a, unique_topic(f"unfinished-{codec}"), cleanup_policy="delete")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], config__properties__exclude="cleanup.policy")
    batches = updates(random.Random(codec), 0)
    for batch in batches:
        produce(cluster_a, topic, batch, compression_type=codec, linger_ms=100)
    assert cycle(flow, until_ms=batches[3][42].timestamp).records == 342
    alter_configs(cluster_a, ResourceType.TOPIC, topic, cleanup_policy="compact")
    produce(cluster_a, topic, [last_word(0)])
    written = list(enumerate([*(seen for batch in batches for seen in batch), last_word(0)]))
    log = survivors(written)
    wait_for_cleaner(cluster_a, topic, log)
    rest = [(offset, seen) for offset, seen in log if offset >= 342]
    assert cycle(flow).records == len(rest)
    arrived = read_with_offsets(cluster_b, f"A.{topic}")
    copied = written[:342] + rest
    assert [seen for _, seen in arrived] == [seen for _, seen in copied]
    expected = translations([offset for offset, _ in copied], [offset for offset, _ in arrived], 801)
    translate = maps_of(flow)[topic].translate
    assert [translate(offset) for offset in range(802)] == expected

"""From progress and offsets to ranges, and from ranges to lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.copying import CopySettings
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.tiers import Tier
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.copying.ranges import resolve
from twinlog.formats.ledger.topics import CopiedThrough
from twinlog.kafka_types import TopicPartition
from twinlog.policy.selection import NameFilter
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, RemoteTopic
from twinlog.transforms.chain import Chain, Filter, RecordIsTombstone, Step

A, B = (ClusterSettings(name, "localhost:1", ConnectionSettings(name, ())) for name in "AB")
FLOW = FlowSettings(A, B)
EMPTY = PartitionOffsets(0, 0, 0)


def topic(*offsets: PartitionOffsets, target: PartitionOffsets | None = EMPTY) -> DiscoveredTopic:
    """Topic `t` with these partitions."""
    partitions = tuple(DiscoveredPartition("t", "id", n, item, target) for n, item in enumerate(offsets))
    return DiscoveredTopic("t", "id", "A.t", len(offsets), partitions, RemoteTopic("rid", len(offsets)))


def resolved(
    offsets: PartitionOffsets,
    last: int | None,
    *,
    flow: FlowSettings = FLOW,
    until: int | None = None,
    target: PartitionOffsets | None = EMPTY,
) -> tuple[list[tuple[int, int]], list[tuple[str, int, int]]]:
    """(ranges, stopped) of one partition."""
    progress = {} if last is None else {TopicPartition("t", 0): last}
    ends = {} if until is None else {TopicPartition("t", 0): until}
    result = resolve(flow, [topic(offsets, target=target)], progress, ends, {})
    ranges = [(item.start, item.end) for item in result.ranges]
    return ranges, [(item.code, item.first_offset, item.last_offset) for item in result.stopped]


@pytest.mark.parametrize(
    ("offsets", "last", "expected"),
    [
        (PartitionOffsets(0, 10, 12), None, [(0, 10)]),
        (PartitionOffsets(4, 10, 12), None, [(4, 10)]),
        (PartitionOffsets(0, 10, 12), 6, [(7, 10)]),
        (PartitionOffsets(0, 10, 12), 9, []),
        (PartitionOffsets(0, 10, 12), 11, []),
        (PartitionOffsets(7, 10, 10), 6, [(7, 10)]),
        (PartitionOffsets(0, 0, 0), None, []),
    ],
)
def test_a_range_goes_from_behind_progress_to_the_stable_end(
    offsets: PartitionOffsets, last: int | None, expected: list[tuple[int, int]]
) -> None:
    """Without progress it begins at the log's start."""
    assert resolved(offsets, last) == (expected, [])


def test_read_uncommitted_goes_to_the_end_of_the_log() -> None:
    """As MM2 does by default."""
    flow = replace(FLOW, copy=CopySettings(read_committed=False))
    assert resolved(PartitionOffsets(0, 10, 12), 6, flow=flow) == ([(7, 12)], [])


def test_from_latest_only_what_comes_after_the_first_look() -> None:
    """auto.offset.reset=latest: a partition without progress begins at its end; with progress nothing changes."""
    flow = replace(FLOW, copy=CopySettings(start_from_latest=True))
    assert resolved(PartitionOffsets(0, 10, 10), None, flow=flow) == ([], [])
    assert resolved(PartitionOffsets(0, 10, 10), 5, flow=flow) == ([(6, 10)], [])


def test_a_bounded_range_ends_before_the_first_later_record() -> None:
    """`ends` are upstream offsets of the first record at or after `until`."""
    assert resolved(PartitionOffsets(0, 10, 10), 2, until=7) == ([(3, 7)], [])
    assert resolved(PartitionOffsets(0, 10, 10), 8, until=7) == ([], [])
    assert resolved(PartitionOffsets(0, 10, 12), 2, until=11) == ([(3, 10)], [])


def test_a_range_has_the_rpo_of_its_tier() -> None:
    """By it lanes know what is urgent."""
    gold = Tier("gold", NameFilter(("t",)), rpo_seconds=30)
    for tiers, expected in (((Tier(),), 300), ((Tier(rpo_seconds=600), gold), 30)):
        result = resolve(replace(FLOW, tiers=tiers), [topic(PartitionOffsets(0, 10, 10))], {}, {}, {})
        assert [expected] == [item.rpo_seconds for item in result.ranges]


def test_offsets_deleted_before_they_were_copied_stop_the_partition() -> None:
    """A gap is named by its first and last upstream offset."""
    assert resolved(PartitionOffsets(20, 30, 30), 9) == ([], [("gap", 10, 19)])


def test_a_log_that_ends_before_progress_stops_the_partition() -> None:
    """The source lost records that were copied, or is another topic."""
    assert resolved(PartitionOffsets(0, 5, 5), 9) == ([], [("truncation", 5, 9)])


def test_a_partition_whose_offsets_nobody_could_read_stops_and_its_neighbours_are_copied() -> None:
    """Without a leader on the source nobody knows what is missing: that is no copy that has everything."""
    whole = topic(PartitionOffsets(0, 5, 5), EMPTY, PartitionOffsets(0, 7, 7))
    led = replace(whole, partitions=(whole.partitions[0], whole.partitions[2]))
    result = resolve(FLOW, [led], {TopicPartition("t", 1): 3}, {}, {})
    assert [(0, 0, 5), (2, 0, 7)] == [(it.partition, it.start, it.end) for it in result.ranges]
    (stopped,) = result.stopped
    assert ("t", 1, "partition-unavailable") == (stopped.topic, stopped.partition, stopped.code)
    assert "t-1: cluster A did not say" in stopped.message


def test_a_partition_without_its_place_on_the_target_waits() -> None:
    """Its neighbours are copied."""
    assert resolved(PartitionOffsets(0, 5, 5), None, target=None) == ([], [("no-target-partition", -1, -1)])


NO_TOMBSTONES = Chain((Step(Filter(), RecordIsTombstone()),))


@pytest.mark.parametrize(
    ("chain", "noted", "news"),
    [
        (Chain(), None, False),
        (NO_TOMBSTONES, None, True),
        (NO_TOMBSTONES, (NO_TOMBSTONES.print, 5), False),
        (NO_TOMBSTONES, (NO_TOMBSTONES.print, 8), True),
        (NO_TOMBSTONES, ("other", 0), True),
        (Chain(), ("other", 0), True),
        (Chain(), ("", 3), False),
    ],
)
def test_a_range_notes_its_chain_if_the_ledger_does_not_say_it(
    chain: Chain, noted: tuple[str, int] | None, news: bool
) -> None:
    """Another chain than before, the first one, none any more, or a copy that begins anew before what is noted."""
    place = TopicPartition("t", 0)
    chains = {} if noted is None else {place: CopiedThrough("t", "id", 0, *noted)}
    flow = replace(FLOW, transforms=chain)
    found = resolve(flow, [topic(PartitionOffsets(0, 10, 12))], {place: 6}, {}, {}, chains=chains)
    assert [(chain, news)] == [(it.chain, it.notes_chain) for it in found.ranges]

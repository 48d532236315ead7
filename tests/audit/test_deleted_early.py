"""What the copy has lost although the source holds it, and what the copy's own retention explains of that."""

from __future__ import annotations

import pytest

from twinlog.audit.deleted_early import deleted_early
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.topics import Beginning, Incarnation
from twinlog.formats.map.offset_map import MapKey, encode_map_key
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.state.progress import read_packed
from twinlog.topics.snapshot import FlowSnapshot

NOW, WEEK = 2_000_000_000, 604_800_000
AT, COPY = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


@pytest.fixture
def found(flow, clusters, source, with_internal, copied):
    """`found(times, before)` copies records with these timestamps, deletes the first of the copy, and looks."""
    source.add_topic("orders")
    with_internal.add_topic("A.orders")

    def look(times, before=3, **configs):
        for it in times:
            source.append(AT, key=None, value=b"v", timestamp=it)
        copied(AT, 0, 2)
        copied(AT, 2, len(times))
        clusters.target.topics["A.orders"].configs |= {k.replace("_", "."): v for k, v in configs.items()}
        clusters.target.delete_records(COPY, before)
        return again()

    def again():
        ledger, maps = read_ledger(flow, clusters.target), read_packed(flow, clusters.target)
        early = deleted_early(flow, clusters, FlowSnapshot(flow, clusters).discovery, ledger, maps, NOW)
        return {at: (it.start, it.end, it.records) for at, it in early.items()}

    look.again = again
    return look


YOUNG, OLD = [NOW] * 5, [NOW - WEEK - 1] * 5


@pytest.mark.parametrize(
    ("times", "configs", "expected"),
    [
        (YOUNG, {}, (0, 3, 3)),
        (OLD, {}, None),
        (OLD[:1] + YOUNG[:4], {}, (1, 3, 2)),
        (OLD[:3] + YOUNG[:2], {}, None),
        (OLD, {"retention_ms": "-1"}, (0, 3, 3)),
        (OLD, {"cleanup_policy": "compact"}, (0, 3, 3)),
        (OLD, {"message_timestamp_type": "LogAppendTime"}, (0, 3, 3)),
        ([-1] * 5, {}, (0, 3, 3)),
        (YOUNG, {"retention_bytes": "2"}, None),
        (YOUNG, {"retention_bytes": "3"}, (0, 3, 3)),
        (OLD, {"retention_bytes": "3"}, None),
    ],
)
def test_only_the_copys_own_retention_explains_it(found, times, configs, expected):
    """By the records' timestamps, or by the bytes that are left (one a record); on doubt it is a finding."""
    assert ({AT: expected} if expected else {}) == found(times, **configs)


def test_all_of_it(found, source, flow, clusters):
    """The copy holds nothing; what the source no longer holds, either, is no loss of the copy."""
    assert {AT: (0, 5, 5)} == found(YOUNG, before=5)
    source.delete_records(AT, 4)
    assert {AT: (4, 5, 1)} == found.again()
    source.delete_records(AT, 5)
    assert {} == found.again()


def test_nothing_is_missing_from_a_whole_copy(found):
    """Nobody is asked for it."""
    assert {} == found(YOUNG, before=0)


def test_sizes_that_are_not_told_explain_nothing(found, target):
    """The right to see them may be missing."""
    target.refuse("log_dirs", "B", ClusterRefused("no"))
    assert {AT: (0, 3, 3)} == found(YOUNG, retention_bytes="1")


@pytest.mark.parametrize(("into_empty", "expected"), [(True, {AT: (0, 3, 3)}), (False, {AT: (2, 3, 1)})])
def test_what_the_map_has_forgotten_was_copied(found, flow, target, source, into_empty, expected):
    """Map compaction drops what lies in front of the log start; before the flow's own beginning nothing is known."""
    topic_id = source.topics["orders"].topic_id
    write_ledger(
        flow,
        target,
        [
            Incarnation("orders", topic_id, 1, "A.orders"),
            Beginning("orders", topic_id, {"0": 0}, {"0": 0}, 1, into_empty),
        ],
    )
    found(YOUNG)
    key = encode_map_key(MapKey("orders", topic_id, 0, 0))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=key, value=None)
    assert expected == found.again()


def test_what_left_another_engines_copy_before_it_was_read_counts(found, source, target, copied):
    """No part of the map tells of it: it was deleted from the copy, as far as anybody knows."""
    assert {AT: (0, 3, 3)} == found(YOUNG[:3])
    for it in YOUNG:
        source.append(AT, key=None, value=b"v", timestamp=it)
    for number in (3, 4):
        target.append(COPY, key=None, value=b"unread", timestamp=number)
    copied(AT, 5, 8)
    target.delete_records(COPY, 6)
    assert {AT: (0, 6, 6)} == found.again()


def test_what_had_left_another_engines_copy_before_the_first_look_counts(found, flow, target, source):
    """The map begins behind it, and the source still holds it: it is not 0."""
    topic_id = source.topics["orders"].topic_id
    assert {AT: (0, 3, 3)} == found(YOUNG)
    key = encode_map_key(MapKey("orders", topic_id, 0, 0))
    target.append(TopicPartition(flow.offset_map_topic, 0), key=key, value=None)
    assert {AT: (2, 3, 1)} == found.again()
    seen = Observed("orders", topic_id, 0, "A.orders", "", 0, 5, 5, 5, 5, {}, {}, (), 0, 0, 1, {})
    write_ledger(flow, target, [seen])
    assert {AT: (0, 3, 3)} == found.again()

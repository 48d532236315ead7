"""Whether a group's position names the same record on both sides."""

from __future__ import annotations

import dataclasses
import time

import pytest

from twinlog.cluster.prints import Fingerprint
from twinlog.gate import ask
from twinlog.gate.ask import GateRequest
from twinlog.groups import same_record
from twinlog.groups.report import GroupPartitionRow, SyncReason, SyncState
from twinlog.judge.check import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import publish

ROW = GroupPartitionRow(
    "billing",
    "orders",
    "A.orders",
    0,
    3,
    7,
    True,
    False,
    None,
    SyncState.SYNCED,
    SyncReason.WRITTEN,
    "",
    0,
    0,
)
PRINT = Fingerprint(3, 1000, b"content", b"key")
COPY = dataclasses.replace(PRINT, offset=7)


@pytest.mark.parametrize(
    ("translated", "ours", "theirs", "expected"),
    [
        (7, PRINT, COPY, True),
        (7, PRINT, dataclasses.replace(COPY, content=b"other"), False),
        (7, PRINT, dataclasses.replace(COPY, timestamp=1001), False),
        (8, PRINT, COPY, False),
        (6, PRINT, COPY, True),
        (7, None, COPY, None),
        (7, PRINT, None, None),
        (None, PRINT, COPY, None),
    ],
)
def test_one_position(translated, ours, theirs, expected):
    """Equal, another record, one that would be skipped, one that is read again, and what cannot be told."""
    row = dataclasses.replace(ROW, downstream_offset=translated)
    assert expected is same_record.same(same_record.Position(row, 3, 7), ours, theirs)


@pytest.mark.parametrize(
    ("changes", "expected"), [({}, True), ({"content": b"masked"}, None), ({"timestamp": 1001}, False)]
)
def test_a_copy_that_transforms_changed_is_left_to_the_audit(changes, expected):
    """Equal or of another time is an answer; another content is none."""
    row = dataclasses.replace(ROW, downstream_offset=7)
    position = same_record.Position(row, 3, 7)
    assert expected is same_record.same(
        position, PRINT, dataclasses.replace(COPY, **changes), may_differ=True
    )


def test_positions_are_chosen_evenly():
    """As many as one gate reads, spread over all; all of few."""
    assert list(range(9)) == list(same_record.evenly(range(9)))
    chosen = same_record.evenly(range(1000))
    assert (same_record.SAMPLED, 0, 980) == (len(chosen), chosen[0], chosen[-1])


def test_the_gate_reads_them(flow, clusters, source, target, orders, copied):
    """A copy whose record is another one, although map and offsets are right, forbids a failover."""
    copied(orders, 0, 5)
    sync_topics.run(flow, clusters)
    source.commit("billing", orders, 3)
    publish.run(flow, clusters, "run-1", None, int(time.time() * 1000))

    assert passed(flow, clusters, "group-same-record")
    log = target.topics["A.orders"].logs[0]
    log.records[3] = log.records[3]._replace(value=b"damage")
    assert not passed(flow, clusters, "group-same-record")


def passed(flow, clusters, name: str) -> bool:
    result = ask.run(flow, clusters, GateRequest(Mode.PLANNED), sleep=lambda _: None).result
    return next(it.passed for it in result.checks if it.name == name)


def test_what_has_expired_there_is_no_other_record(flow, clusters, source, target, orders, copied):
    """Unread and still on the source it forbids a failover, under its own name; expired on both it does not."""
    copied(orders, 0, 5)
    sync_topics.run(flow, clusters)
    source.commit("billing", orders, 2)
    publish.run(flow, clusters, "run-1", None, int(time.time() * 1000))
    target.delete_records(TopicPartition("A.orders", 0), 4)
    names = ("group-same-record", "group-all-there")
    assert [True, False] == [passed(flow, clusters, name) for name in names]
    source.delete_records(orders, 4)
    assert [True, True] == [passed(flow, clusters, name) for name in names]

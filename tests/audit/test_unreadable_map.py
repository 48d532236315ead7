"""A map that contradicts itself, as two programs make it that copy at once, is a problem of its partition alone."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from twinlog.audit import audit
from twinlog.audit.comparison.values import Comparison
from twinlog.audit.lane import AuditLaneReport, AuditLaneSpec, AuditSpec
from twinlog.audit.verdict import AuditVerdict
from twinlog.cluster.values import InternalRecord
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.gate import ask as gate
from twinlog.gate.ask import GateRequest
from twinlog.groups import checkpoints
from twinlog.judge.check import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.logs.reading_lanes import Reading
from twinlog.monitoring import publish, status
from twinlog.offset_sync import emit
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.progress import Maps, SourceIncarnation, read_maps, read_packed

LIFE = SourceIncarnation("orders", "id-orders-1", 0)


class AllEqual:
    """Calls every record equal, and keeps which topics it was to compare."""

    slots = 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def run(self, lanes: Sequence[AuditLaneSpec]) -> tuple[AuditLaneReport, ...]:
        self.asked += [spec.topic for lane in lanes for spec in lane.specs]
        return tuple(AuditLaneReport(it.lane, tuple(map(self._equal, it.specs))) for it in lanes)

    def _equal(self, spec: AuditSpec) -> Reading[Comparison]:
        scope = spec.scope
        count = scope.end - scope.start
        return Reading(
            spec.topic, spec.topic_id, spec.partition, scope.start, Comparison(count, equal_bytes=count)
        )


@pytest.fixture
def contradicting(flow, clusters, orders, copied) -> None:
    """Offsets 2 and 3 are said to be in two places."""
    copied(orders, 0, 5)
    overlapping = encode_segment(MapSegment(2, 4, (Extent(2, 0, 2),)))
    key = encode_map_key(MapKey(*LIFE, 2))
    clusters.target.produce(flow.offset_map_topic, [InternalRecord(key, overlapping, 0)])


def test_an_unreadable_map_is_a_problem_and_stops_no_other_audit(
    flow, clusters, contradicting, source, target, copied
) -> None:
    """The flow does not count as equal, and the other topic is compared."""
    source.add_topic("users", 1)
    target.add_topic("A.users", 1)
    users = TopicPartition("users", 0)
    source.append(users, key=b"k", value=b"1")
    copied(users, 0, 1)
    lanes = AllEqual()
    result = audit.run(flow, clusters, lanes)
    told = {it.topic: it.code for it in result.problems}
    assert ("offset-map", ["users"], AuditVerdict.NOT_AUDITED) == (
        told["orders"],
        lanes.asked,
        result.verdict,
    )


def test_everybody_else_goes_on(flow, clusters, contradicting) -> None:
    """Report, status, offset syncs, checkpoints and the gate: none of them fails, and the gate says no."""
    publish.run(flow, clusters, "run", None, int(time.time() * 1000))
    status.run(flow, clusters)
    emit.run(flow, clusters)
    checkpoints.run(flow, clusters)
    found = gate.run(flow, clusters, GateRequest(Mode.PLANNED), sleep=lambda _: None).result
    failed = {it.name for it in found.checks if not it.passed}
    assert {"nothing-copied-twice", "downstream-counted-once", "audit-age"} <= failed


def test_asking_whether_there_is_a_map_raises_nothing(flow, clusters, contradicting) -> None:
    """Of what cannot be read it says no; whoever takes it by its key hears why."""
    maps = read_maps(flow, clusters.target)
    assert (False, True) == (LIFE in maps, LIFE in read_packed(flow, clusters.target))
    assert LIFE not in Maps({}, {})

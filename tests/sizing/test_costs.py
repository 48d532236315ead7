"""The costs are the measured ones, and the model gives the measurements back."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.record import Record, build_batch, record_rest
from twinlog.formats.map.offset_map import MapKey, SegmentDraft
from twinlog.lane.copy.state_records import StateRecord, map_record, progress_record
from twinlog.lane.spec import StateTopics
from twinlog.offsets.segments import Extent
from twinlog.sizing.costs import MEASURED, Curve, LaneModel
from twinlog.sizing.cycles import cycle
from twinlog.sizing.following import follow
from twinlog.sizing.load import Load, Rules

KINDS = {1_076: "1 KB, 1 a batch", 16_384: "1 KB, 16 a batch", 262_144: "1 KB"}
STATE = StateTopics(
    offsets_topic="mm2-offsets.A.internal",
    offsets_partitions=25,
    map_topic="mm2-offset-map.A.internal",
    map_partitions=16,
    ledger_topic="mm2-ledger.A.internal",
    connector_name="MirrorSourceConnector",
    source_alias="A",
)


def measured(repository: Path, name: str) -> Any:
    return json.loads((repository / "docs" / "performance" / f"{name}.json").read_text())


def median(repository: Path, kind: str, figure: str) -> float:
    """The median of a figure over the repetitions of twinlog's copies of a kind, in ms for a MB."""
    rows = [
        it
        for it in measured(repository, "results")["copies"]
        if (it["contender"], it["kind"]) == ("twinlog", kind)
    ]
    return statistics.median(1e9 * it[figure] / it["read_bytes"] for it in rows)


@pytest.mark.parametrize(("curve", "figure"), [("lane", "wall_s"), ("lane_cpu", "workers_cpu_s")])
def test_a_lane_costs_what_the_benchmark_measured(repository, curve, figure):
    """To two digits, at each size of batches."""
    expected = {size: median(repository, kind, figure) for size, kind in KINDS.items()}
    assert expected == pytest.approx(dict(getattr(MEASURED, curve).points), rel=0.02)


def test_memory_is_that_of_the_largest_worker(repository):
    """And of the driver and the JVM beside it."""
    rows = [it for it in measured(repository, "results")["copies"] if it["contender"] == "twinlog"]
    assert MEASURED.worker_memory.value == pytest.approx(max(it["worker_mib"] for it in rows), rel=0.02)
    assert MEASURED.driver_memory.value == pytest.approx(
        max(it["memory_mib"] - it["worker_mib"] for it in rows), rel=0.02
    )


@pytest.mark.parametrize("number", range(3))
def test_an_idle_cycle_takes_as_long_as_was_measured(repository, number):
    """Within a tenth, with 100, 1,000 and 10,000 partitions."""
    row = measured(repository, "idle")["rows"][number]
    idle = cycle(Load(partitions=row["partitions"], mb_per_second=0), 1, MEASURED, Rules())
    assert row["idle_s"] == pytest.approx(idle.seconds, rel=0.1)


def test_a_followed_flow_takes_the_cores_that_were_measured(repository):
    """Within a third: 5,000 records of 1 KB a second over 20 partitions, which arrive one or two to a batch."""
    row = next(it for it in measured(repository, "latency")["rows"] if it["contender"] == "twinlog")
    load = Load(partitions=20, mb_per_second=5.2, batch_bytes=1_500)
    assert row["workers"] == pytest.approx(follow(LaneModel(load, 1, MEASURED, Rules())).cpu_cores, rel=0.34)


def test_the_start_of_a_job_is_the_measured_one(repository):
    """A job of two tasks that copy nothing."""
    (row,) = measured(repository, "spark-task")["rows"]
    assert MEASURED.job.value == pytest.approx(1000 * row["wall_s_a_job"], rel=0.02)


def test_the_map_is_read_as_quickly_as_was_measured(repository):
    """At the end of a year."""
    it = max(
        (row for row in measured(repository, "year")["rows"] if "day" in row), key=lambda row: row["day"]
    )["offset map"]
    assert MEASURED.map_reading.value == pytest.approx(it["bytes"] / it["read_s"] / 1e6, rel=0.1)


def test_state_records_are_as_large_as_the_model_says():
    """Progress and a map segment of a partition, half full on average; an extent begins behind each marker."""
    topic = "a-topic-of-thirty-letters-here"
    extents = [Extent(100 * n, 101 * n, 100) for n in range(64)]
    value = SegmentDraft.begin(0).extended(extents).value(6400)
    key = MapKey(topic, "gJpcxBkwTGuH6E3yRDrbQg", 123, 10**9)
    state = size_of(progress_record(STATE, topic, 123, 10**9, 10**9)) + size_of(map_record(STATE, key, value))
    assert MEASURED.state.value == pytest.approx(state, rel=0.1)
    longer = SegmentDraft.begin(0).extended([*extents, Extent(6400, 6464, 100)]).value(6500)
    assert MEASURED.extent.value >= len(longer) - len(value)


def size_of(record: StateRecord) -> int:
    """The bytes of a record in a batch of its own, in the log."""
    return len(build_batch([Record(0, 0, record_rest(record.key, record.value, record.headers))], 0))


@given(st.integers(100, 1 << 24), st.integers(100, 1 << 24))
def test_larger_batches_never_cost_more(one, other):
    """A curve of costs falls as its measured points do."""
    small, large = sorted((one, other))
    for curve in (MEASURED.lane, MEASURED.lane_cpu):
        assert curve.at(small) >= curve.at(large)


def test_a_curve_goes_through_its_points():
    """Between two it is a line over the logarithm; beyond them it is level."""
    curve = Curve(((100, 3.0), (10_000, 1.0)), "ms/MB", "here")
    assert [3.0, 3.0, 2.0, 1.0, 1.0] == pytest.approx([
        curve.at(it) for it in (1, 100, 1_000, 10_000, 1 << 30)
    ])


def test_every_cost_says_where_it_comes_from(repository):
    """A file of the measurements or a page names the figure."""
    for name, it in MEASURED.listed():
        if it.source.startswith("docs/"):
            assert (repository / it.source.partition(",")[0]).is_file(), name
        assert it.unit, name

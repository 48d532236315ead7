"""Matching what the real MM2 4.3.1 made: each record it doubled is named, and a sound copy never alarms.

Covers twinlog.observe.align and .lane on real logs.  Takes about three minutes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench.process_tree import ProcessTree
from test_mirror_maker import Shared, share

from lab import Seen, create_topic, produce, read_with_offsets, wait_until
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.observe.lane import ObserveLaneSpec, ObserveSpec, observe_lane
from twinlog.observe.values import HORIZON_MS, Carried, Finding, Matched
from twinlog.protocol.brokers import LATEST, Brokers

pytestmark = [pytest.mark.mm2, pytest.mark.long]

NOW = int(time.time() * 1000)
FETCHED = 8 << 20


def observe(flow: FlowSettings, topic: str, carried: Carried, now_ms: int) -> tuple[Matched, float]:
    """Match partition 0 from where an earlier increment ended; the result, and the CPU seconds it took."""
    remote = flow.remote_name(topic)
    with Brokers(flow.source.connection) as source, Brokers(flow.target.connection) as target:
        target_end = target.offsets([TopicPartition(remote, 0)], LATEST)[remote, 0]
        source_end = source.offsets([TopicPartition(topic, 0)], LATEST)[topic, 0]
    spec = ObserveSpec(topic, "an id", 0, remote, carried, source_end, target_end, now_ms)
    connections = flow.source.connection, flow.target.connection
    report = observe_lane(ObserveLaneSpec(0, *connections, (spec,), True, FETCHED))
    [look] = report.partitions
    assert look.found is not None, look
    return look.found, report.cpu_seconds


def numbered(first: int, end: int) -> list[Seen]:
    return [Seen(b"%d" % (n % 1000), b"%060d" % n, NOW + n // 50, ()) for n in range(first, end)]


def flow_with_defaults(folder: Path, source: Any, target: Any, topic: str) -> Shared:
    """A flow whose MM2 writes its positions once a minute, as it does by default."""
    shared = share(folder, source, target, topic)
    lines = [it for it in shared.text.splitlines() if "offset.flush.interval" not in it]
    return Shared("\n".join(lines), shared.flow)


def ends_of(flow: FlowSettings, remote: TopicPartition) -> Callable[[], int]:
    """How far a copy goes now, 0 as long as it is not there."""

    def end() -> int:
        with Brokers(flow.target.connection) as brokers, suppress(TwinlogError):
            return brokers.offsets([remote], LATEST)[remote]
        return 0

    return end


def test_each_record_that_a_killed_mirror_maker_doubled_is_named(
    cluster_a: Any, cluster_b: Any, tmp_path: Path, start_mirror_maker: Callable[..., Any]
) -> None:
    """Killed at random during 300,000 records, with its defaults: none missed, none besides, increments or not."""
    topic, total = create_topic(cluster_a, "observed-killed"), 300_000
    shared = flow_with_defaults(tmp_path, cluster_a, cluster_b, topic)
    produce(cluster_a, topic, numbered(0, total))
    chance = random.Random()
    engine = start_mirror_maker(shared.text)
    remote = TopicPartition(shared.flow.remote_name(topic), 0)

    copied = ends_of(shared.flow, remote)
    carried, increments = Carried(0, 0), []
    for _ in range(4):
        had = copied()
        least = had + chance.randrange(5_000, 120_000)
        deadline = time.monotonic() + 60
        while copied() < least and time.monotonic() < deadline:
            time.sleep(0.05)
        engine.kill()
        increments.append(observe(shared.flow, topic, carried, 0)[0])
        carried = increments[-1].carried
        engine.start()
    last = copied()
    wait_until(lambda: copied() > last, 120)  # doubled records alone may be more than all of the source
    while copied() != last or last < total:
        last = copied()
        time.sleep(8)
    increments.append(observe(shared.flow, topic, carried, 0)[0])
    increments.append(observe(shared.flow, topic, increments[-1].carried, HORIZON_MS)[0])

    log = read_with_offsets(cluster_b, remote.topic, seconds=120)
    seen: set[int] = set()
    expected: set[tuple[int, int]] = set()
    places: dict[int, int] = {}
    for downstream, record in log:
        number = int(record.value or b"")
        if number in seen:
            expected.add((number, downstream))
        seen.add(number)
        places[number] = downstream
    found = [it for one in increments for it in one.findings]
    named = {
        (up, down)
        for it in found
        if it.kind is Finding.DOUBLED and it.upstream and it.downstream
        for up, down in zip(range(*it.upstream), range(*it.downstream), strict=True)
    }
    once, seconds = observe(shared.flow, topic, Carried(0, 0), 0)
    print(
        f"{len(log)} copies of {total}, {len(expected)} doubled, {len(named)} named, {seconds:.1f} CPU-s at once"
    )
    assert expected == named
    assert {Finding.DOUBLED} == {it.kind for it in found}
    assert (
        len(expected)
        == once.counts[Finding.DOUBLED]
        == sum(it.counts.get(Finding.DOUBLED, 0) for it in increments)
    )
    runs = [run for one in increments for segment in one.segments for run in segment.runs]
    mapped = {run.upstream + n: run.downstream + n for run in runs for n in range(run.length)}
    assert places == mapped


def test_a_sound_copy_of_a_million_records_has_no_finding(
    cluster_a: Any, cluster_b: Any, tmp_path: Path, start_mirror_maker: Callable[..., Any]
) -> None:
    """For less than half of what MM2 spends on copying them."""
    topic, total = create_topic(cluster_a, "observed-sound"), 1_000_000
    shared = flow_with_defaults(tmp_path, cluster_a, cluster_b, topic)
    produce(cluster_a, topic, numbered(0, 1))
    engine = start_mirror_maker(shared.text)
    remote = TopicPartition(shared.flow.remote_name(topic), 0)

    copied = ends_of(shared.flow, remote)
    wait_until(lambda: copied() == 1, 90)
    with ProcessTree(engine.pid) as tree:
        before = sum(tree.cpu_s().values())
        produce(cluster_a, topic, numbered(1, total))
        wait_until(lambda: copied() == total, 120)
        theirs = sum(tree.cpu_s().values()) - before
    found, ours = observe(shared.flow, topic, Carried(0, 0), 0)
    print(f"MM2 {theirs:.1f} CPU-s, observed in {ours:.1f} CPU-s")
    assert ((), total, 0) == (found.findings, found.equal, found.not_comparable)
    assert ours < theirs / 2

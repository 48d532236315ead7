"""Measure an offset map: its size, the time to load it from Kafka, and to translate every group by it.

    python -m bench.offset_map                 1, 10 and 100 million runs over 1,000 partitions
    python -m bench.offset_map --runs 1000000  one size

The worst usual case is a transactional source with a marker after every few records, so that every extent is short.
The map segments are written to a map topic of an embedded broker, as lanes write them (128 extents each; `joined`: as
map compaction leaves them).  Each reading is a process of its own, so that its memory is its own: the first has no
cache, the second has the cache that the first left.  Seconds are wall / CPU of the reading process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from twinlog.cluster.api import Cluster
from twinlog.config.flow.load import load
from twinlog.formats.map.offset_map import MapKey, SegmentDraft, encode_map_key
from twinlog.formats.mm2.connect_offset import partition_for
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.copy.range_state import PIECE_RUNS
from twinlog.offset_sync.map_compaction import JOINED_RUNS
from twinlog.state.internal_topics import OFFSET_MAP_PARTITIONS
from twinlog.state.progress import read_packed

PARTITIONS = 1_000
GROUPS = 5_000
POSITIONS = GROUPS * 10
RECORDS_A_RUN = 5
SIZES = (1_000_000, 10_000_000, 100_000_000)
TOPIC = "mm2-offset-map.A.internal"


def pieces(partition: int, runs: int, runs_a_piece: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield records of the map topic for one partition: extents of a few records, a marker between on both sides."""
    step = RECORDS_A_RUN + 1
    for at in range(0, runs, runs_a_piece):
        first, count = at * step, min(runs_a_piece, runs - at)
        draft = SegmentDraft.begin(first).extended([0, first, RECORDS_A_RUN])
        tail = bytes([1, 1, RECORDS_A_RUN]) * (count - 1)
        head = SegmentDraft(first, 0, 0, count, draft.runs + tail)
        key = encode_map_key(MapKey("orders", "5ocRvdKDSTmBYqRHlBKdeQ", partition, first))
        yield key, head.value(first + count * step)


def write(bootstrap: str, runs: int, runs_a_piece: int) -> tuple[int, int]:
    """Write the map of all partitions; return the number of map segments and bytes."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compact = {"cleanup.policy": "compact", "segment.bytes": str(4 << 20)}
    for future in admin.create_topics([NewTopic(TOPIC, OFFSET_MAP_PARTITIONS, 1, config=compact)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "batch.size": 500_000})
    count = size = 0
    for partition in range(PARTITIONS):
        number = partition_for(f"orders-{partition}".encode(), OFFSET_MAP_PARTITIONS)
        for key, value in pieces(partition, runs // PARTITIONS, runs_a_piece):
            while True:
                try:
                    producer.produce(TOPIC, value, key, number)
                    break
                except BufferError:
                    producer.poll(0.1)
            count, size = count + 1, size + len(key) + len(value)
        producer.poll(0)
    assert not producer.flush(120)
    return count, size


def read(properties: Path, runs: int) -> dict[str, float | str]:
    """Load the map from its topic, and translate every group; measure this very process."""
    flow = load(properties).flows["A->B"]
    cluster = Cluster(flow.target)
    cluster.cluster_id()
    before, clock = _megabytes(), _Clock()
    maps = read_packed(flow, cluster)
    loaded, after_load = clock.lap(), _megabytes()
    chance = np.random.default_rng(1)
    end = runs // PARTITIONS * (RECORDS_A_RUN + 1)
    offsets = [chance.integers(0, end, POSITIONS // PARTITIONS) for _ in maps]
    clock.lap()
    for packed, wanted in zip(maps.values(), offsets, strict=True):
        found = packed.translate_many(wanted)
        assert found is not None and found.exact.all()
        assert (found.offset == np.where(wanted % 6 == 5, wanted + 1, wanted))[wanted < end - 1].all()
    translated = clock.lap()
    for packed, wanted in zip(maps.values(), offsets, strict=True):
        back = packed.reverse_many(wanted)
        assert back is not None
    reversed_ = clock.lap()
    assert sum(packed.run_count for packed in maps.values()) == runs // PARTITIONS * PARTITIONS
    return {
        "load": loaded,
        "translate": translated,
        "reverse": reversed_,
        "positions": POSITIONS,
        "mb_at_start": before,
        "mb_after_load": after_load,
        "mb_peak": _megabytes(),
    }


class _Clock:
    """Wall and CPU seconds since the last lap."""

    def __init__(self) -> None:
        self._last = time.monotonic(), time.process_time()

    def lap(self) -> str:
        now = time.monotonic(), time.process_time()
        wall, cpu = now[0] - self._last[0], now[1] - self._last[1]
        self._last = now
        return f"{wall:.1f} / {cpu:.1f}"


def _megabytes() -> int:
    """Return the most memory this process has had so far; getrusage's figure includes its parent's."""
    (most,) = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(most) // 1024


def measure(runs: int, runs_a_piece: int) -> None:
    """Write a map of one size, and have it read twice."""
    with tempfile.TemporaryDirectory() as name, EmbeddedKafka("map", Path(name) / "kafka") as broker:
        count, size = write(broker.bootstrap_servers, runs, runs_a_piece)
        kind = "lanes" if runs_a_piece == PIECE_RUNS else "joined"
        print(json.dumps({"runs": runs, "as_left_by": kind, "pieces": count, "mb": round(size / 1e6, 1)}))
        properties = Path(name) / "mm2.properties"
        servers = f"A.bootstrap.servers = unused:1\nB.bootstrap.servers = {broker.bootstrap_servers}\n"
        properties.write_text(f"clusters = A, B\n{servers}A->B.enabled = true\n")
        command = [sys.executable, "-m", "bench.offset_map", "--runs", str(runs), "--read", str(properties)]
        for cache in ("no cache", "cache"):
            environment = os.environ | {"XDG_CACHE_HOME": f"{name}/cache"}
            answer = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            print(json.dumps({"from": cache} | json.loads(answer.stdout)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, help="one size")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read is not None:
        print(json.dumps(read(given.read, given.runs)))
        return
    for runs in (given.runs,) if given.runs else SIZES:
        for runs_a_piece in (PIECE_RUNS, JOINED_RUNS):
            measure(runs, runs_a_piece)


if __name__ == "__main__":
    main()

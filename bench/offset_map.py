"""How large an offset map is, how long it takes to load, and to translate every group by it.

    python -m bench.offset_map                 1, 10 and 100 million runs over 1,000 partitions
    python -m bench.offset_map --runs 1000000  one size

The worst usual case: a transactional source, a marker after every few records, so that every run is short.  Each size
is measured in a process of its own, so that its memory is its own.  Times are CPU-seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from twinlog.cluster.progress import packed_maps
from twinlog.formats.offset_map import MapKey, PieceDraft, encode_map_key
from twinlog.offsets.run import Run
from twinlog.relay.range_copy import PIECE_RUNS

PARTITIONS = 1_000
GROUPS = 5_000
RECORDS_A_RUN = 5
SIZES = (1_000_000, 10_000_000, 100_000_000)


def pieces(partition: int, runs: int) -> Iterator[tuple[bytes, bytes]]:
    """Records of the map topic for one partition: runs of a few records, a marker between on either side."""
    step = RECORDS_A_RUN + 1
    tail = bytes([1, 1, RECORDS_A_RUN]) * (PIECE_RUNS - 1)
    for first in range(0, runs * step, PIECE_RUNS * step):
        draft = PieceDraft.begin(first).extended([Run(first, first, RECORDS_A_RUN)])
        head = PieceDraft(first, 0, 0, PIECE_RUNS, draft.runs + tail)
        key = encode_map_key(MapKey("orders", "5ocRvdKDSTmBYqRHlBKdeQ", partition, first))
        yield key, head.value(first + PIECE_RUNS * step)


def measure(runs: int) -> dict[str, float]:
    """Build, index, translate."""
    each = runs // PARTITIONS
    latest: dict[bytes, bytes | None] = {}
    for partition in range(PARTITIONS):
        latest.update(pieces(partition, each))
    before = _megabytes()
    started = time.process_time()
    maps = packed_maps(latest)
    indexed = time.process_time() - started
    chance = np.random.default_rng(1)
    end = each * (RECORDS_A_RUN + 1)
    offsets = [chance.integers(0, end, GROUPS * 10 // PARTITIONS) for _ in maps]
    started = time.process_time()
    for packed, wanted in zip(maps.values(), offsets, strict=True):
        found = packed.translate_many(wanted)
        assert found is not None and found.exact.all()
    translated = time.process_time() - started
    one = next(iter(maps.values()))
    started = time.process_time()
    opened = one.open()
    open_one = time.process_time() - started
    single = opened.translate(int(offsets[0][0]))
    assert single is not None
    started = time.process_time()
    for at in offsets[0].tolist() * 20:
        opened.translate(at)
    size = sum(len(key) + len(value or b"") for key, value in latest.items())
    return {
        "runs": sum(packed.run_count for packed in maps.values()),
        "pieces": len(latest),
        "bytes": size,
        "bytes_a_run": round(size / runs, 2),
        "index_seconds": round(indexed, 2),
        "translate_seconds": round(translated, 2),
        "positions": GROUPS * 10,
        "open_one_partition_ms": round(open_one * 1000, 1),
        "translate_one_us": round((time.process_time() - started) / (len(offsets[0]) * 20) * 1e6, 1),
        "records_mb": round(before, 0),
        "peak_mb": round(_megabytes(), 0),
    }


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, help="one size, in this process")
    chosen = parser.parse_args().runs
    if chosen is not None:
        print(json.dumps(measure(chosen)))
        return
    for runs in SIZES:
        command = [sys.executable, "-m", "bench.offset_map", "--runs", str(runs)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

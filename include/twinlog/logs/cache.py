"""Keep the records read from a large compacted topic on this machine, so that the next process starts from them.

This is only a cache, and may be deleted at any time.  A cache that is damaged, old, dated in the future, or of another
incarnation of the topic is not used.  Age matters because tombstones vanish from a compacted topic
(`delete.retention.ms`, a day): after a longer pause a reader would never learn of the deletion.  The reader asks the
cluster whether the log is still the one that was read (logs/log_reader.py), by the leader epoch stored beside the
position.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import numpy as np
import platformdirs
from crc32c import crc32c

VERSION = 2
MAX_AGE_SECONDS = 12 * 3600
"""Half of the time for which our own topics keep tombstones (twinlog.state.internal_topics)."""

MOST_BYTES = 2 << 30
"""The limit for all caches together; the oldest are deleted first."""

_UNFINISHED_SECONDS = 3600
_SUFFIX, _UNFINISHED = ".cache", ".unfinished"

_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class CachedPartition:
    """The committed records of one partition by key, each (offset, value, timestamp), and the position to resume at.

    `epoch` is the leader epoch of the last batch before `position`.
    """

    position: int
    records: Mapping[bytes, tuple[int, bytes, int]]
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of the cache: its size, and when it was written (seconds since the epoch)."""

    path: Path
    size: int
    at: float


def folder() -> Path:
    """Return the folder with all caches of this user."""
    return platformdirs.user_cache_path("twinlog") / "state"


def cache_file(cluster_id: str, topic: str, topic_id: str) -> Path:
    """Return the path of a topic's cache; it holds the cluster id, as a restored cluster has the same topic ids."""
    # A broker says what its cluster's id is: it is one name here, whatever it holds.
    return folder() / quote(cluster_id, safe="").replace(".", "%2E") / f"{topic}-{topic_id}{_SUFFIX}"


def save(path: Path, partitions: Mapping[int, CachedPartition]) -> None:
    """Write the cache, whole or not at all.  If the disk is full or not writable, only the cache is missing."""
    crc = 0
    # The parts are built twice rather than kept: together they are as large as all records known.
    for part in _body(partitions):
        crc = crc32c(part, crc)
    head = {
        "version": VERSION,
        "at": int(time.time()),
        "crc": crc,
        "partitions": [[number, it.position, it.epoch, len(it.records)] for number, it in partitions.items()],
    }
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=_UNFINISHED)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(head).encode() + b"\n")
                file.writelines(_body(partitions))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def clear(caches: Path) -> None:
    """Delete files below `caches` that are of no more use: of topics and flows that are gone, or beyond the limit.

    Only twinlog's own files are deleted; a file that cannot be deleted stays.
    """
    kept = []
    for path in [*caches.glob("*"), *caches.glob("*/*")]:
        ours = path.suffix in {_SUFFIX, _UNFINISHED} or path.name.startswith(tempfile.gettempprefix())
        with suppress(OSError):
            if ours and path.is_file():
                told = path.stat()
                kept.append(Kept(path, told.st_size, told.st_mtime))
    for one in useless(kept, time.time()):
        with suppress(OSError):
            one.path.unlink()
    for below in [path for path in caches.glob("*") if path.is_dir()]:
        with suppress(OSError):  # the folder is not empty
            below.rmdir()


def useless(kept: Iterable[Kept], now: float) -> list[Kept]:
    """Return the files that are too old, left over by a writer that died, or beyond the total limit.  Pure."""
    found, size = [], 0
    for one in sorted(kept, key=lambda it: it.at, reverse=True):
        most = MAX_AGE_SECONDS if one.path.suffix == _SUFFIX else _UNFINISHED_SECONDS
        size += one.size
        if not 0 <= now - one.at < most or size > MOST_BYTES:
            found.append(one)
    return found


def load(path: Path) -> Mapping[int, CachedPartition] | None:
    """Read the cache; return None if there is no usable one."""
    try:
        with path.open("rb") as file:
            head = json.loads(file.readline())
            usable = head["version"] == VERSION and 0 <= time.time() - head["at"] < MAX_AGE_SECONDS
            if not usable or head["crc"] != _checksum(file):
                return None
            return dict(_partitions(head["partitions"], file))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _body(partitions: Mapping[int, CachedPartition]) -> Iterator[bytes]:
    """Yield, by partition, the columns (offsets, timestamps, sizes of keys and values), all keys, and all values."""
    for partition in partitions.values():
        rows = [
            (offset, timestamp, len(key), len(value))
            for key, (offset, value, timestamp) in partition.records.items()
        ]
        yield np.array(rows, dtype="<i8").reshape(-1, 4).T.tobytes()
        yield b"".join(partition.records)
        yield b"".join(value for _, value, _ in partition.records.values())


def _checksum(file: BinaryIO) -> int:
    """Return the checksum of the rest of a file, and seek back to where the rest begins."""
    begin, crc = file.tell(), 0
    while part := file.read(_READ_BYTES):
        crc = crc32c(part, crc)
    file.seek(begin)
    return crc


def _partitions(
    listed: list[tuple[int, int, int, int]], file: BinaryIO
) -> Iterator[tuple[int, CachedPartition]]:
    for number, position, epoch, count in listed:
        columns = np.frombuffer(file.read(32 * count), dtype="<i8").reshape(4, count)
        keys, values = _cut(file, columns[2]), _cut(file, columns[3])
        kept = zip(columns[0].tolist(), values, columns[1].tolist(), strict=True)
        yield number, CachedPartition(position, dict(zip(keys, kept, strict=True)), epoch)


def _cut(file: BinaryIO, sizes: np.ndarray) -> list[bytes]:
    data = file.read(int(sizes.sum()))
    return [data[start:end] for start, end in pairwise([0, *np.cumsum(sizes).tolist()])]

"""Write the records of one side to a Parquet file for each partition: offsets, keys, values, headers, timestamps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.batches.record import key_value_headers
from twinlog.gate.record import into_reports
from twinlog.jsonable import Json
from twinlog.logs.partition_reader import Lost
from twinlog.recovery.one_sided.read import Stretch

ROWS = 2_000
"""Records in memory at once, and in a row group."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file, what it holds, and its digest, hexadecimal."""

    path: str
    topic: str
    partition: int
    records: int
    sha256: str


def write(
    folder: Path, stretch: Stretch, items: Iterable[RawRecord | Lost], expected: int | None
) -> WrittenFile | None:
    """Write the file whole or not at all; None if it would hold other than `expected` records.

    A file of an earlier run stays then.  Folder and file are for this user alone.  Raises TerminalError `reports` if
    the folder cannot be written to.
    """
    path = folder / stretch.side.value / f"{stretch.place}.parquet"
    draft = path.with_name(f".{path.name}.draft")
    with into_reports(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        draft.unlink(missing_ok=True)
        count = _fill(draft, stretch, (it for it in items if not isinstance(it, Lost)))
        if expected is not None and count != expected:
            draft.unlink()
            return None
        with draft.open("rb") as made:
            digest = hashlib.file_digest(made, "sha256").hexdigest()
        draft.replace(path)
    return WrittenFile(str(path), stretch.topic, stretch.partition, count, digest)


def _fill(draft: Path, stretch: Stretch, records: Iterator[RawRecord]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    header = pa.struct([("name", pa.string()), ("value", pa.binary())])
    schema = pa.schema([
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(header)),
    ])
    count = 0
    private = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(private, "wb") as file, pq.ParquetWriter(file, schema) as out:
        while rows := list(islice(records, ROWS)):
            out.write_table(pa.Table.from_pylist([_row(stretch, row) for row in rows], schema))
            count += len(rows)
    return count


def _row(stretch: Stretch, record: RawRecord) -> Json:
    key, value, headers = key_value_headers(memoryview(record.rest))
    return {
        "topic": stretch.topic,
        "partition": stretch.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": key,
        "value": value,
        "headers": [{"name": name, "value": content} for name, content in headers],
    }

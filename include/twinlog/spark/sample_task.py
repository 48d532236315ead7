"""The Spark task that samples a topic: read the newest records of some partitions, as rows of a frame."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa

from twinlog.audit.comparison.record_fields import RawRecord, fields_of, records_of
from twinlog.data_rules.sample import SampledPartition
from twinlog.formats.ledger.audit import Unproved
from twinlog.jsonable import from_json
from twinlog.logs.partition_reader import Block, PartitionReader
from twinlog.protocol.brokers import Brokers
from twinlog.spark.build import other_build, refuse_build

SCHEMA = (
    "topic string, partition int, offset long, timestamp long, key string, value string, key_size int,"
    " value_size int, headers int, value_is_json boolean"
)
_ARROW = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "boolean": pa.bool_()}
_ARROW_SCHEMA = pa.schema([
    (name, _ARROW[kind]) for name, kind in (column.split() for column in SCHEMA.split(","))
])
FETCH_BYTES = 1 << 20


def sample(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the partition whose number stands in each row (task).

    `lanes` are a connection and SampledPartitions, pickled.  Raises TerminalError if the driver runs another twinlog.
    """
    if difference := other_build(build):
        raise refuse_build(difference)
    connection, partitions = pickle.loads(lanes)
    wanted: dict[int, SampledPartition] = dict(enumerate(partitions))
    with Brokers(connection) as brokers:
        reader = PartitionReader(brokers, Unproved.TARGET_RETENTION, fetch_bytes=FETCH_BYTES)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pylist(list(_rows(reader, wanted[number])), schema=_ARROW_SCHEMA)


def _rows(reader: PartitionReader, it: SampledPartition) -> Iterator[dict[str, object]]:
    for item in reader.read(it.read_topic, it.partition, it.start, it.end):
        for batch in item.batches() if isinstance(item, Block) else ():
            for record in records_of(*batch):
                if it.start <= record.offset < it.end:
                    yield row(it.topic, it.partition, record)


def row(topic: str, partition: int, record: RawRecord) -> dict[str, object]:
    """Make a row of a record: invalid UTF-8 is replaced in the text, sizes are the real ones."""
    fields = fields_of(record.rest)
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(fields.key),
        "value": _text(fields.value),
        "key_size": None if fields.key is None else len(fields.key),
        "value_size": None if fields.value is None else len(fields.value),
        "headers": len(fields.headers),
        "value_is_json": None if fields.value is None else is_json(fields.value),
    }


def is_json(content: bytes) -> bool:
    """Say whether bytes are one JSON document (RFC 8259: no NaN)."""
    constants: list[str] = []
    try:
        from_json(content, parse_constant=constants.append)
    except ValueError:
        return False
    return not constants


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")

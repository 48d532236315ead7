"""Offsets as other tools write them, read and written back with the translated ones in their place.  Pure.

| form | written by | looks like |
|---|---|---|
| `spark` | Structured Streaming (`startingOffsets`, the JSON of a progress report) | `{"orders": {"0": 42, "1": -1}}` |
| `spark-log` | Structured Streaming's checkpoint, `offsets/<batch>` | `v1`, a line of metadata, a line a source |
| `list` | Kafka's tools | `[{"topic": "orders", "partition": 0, "offset": 42}]`, also under `partitions` |
| `csv` | `kafka-consumer-groups --export`, for `--from-file` | `orders,0,42` or `readers,orders,0,42` |

Spark's -1 (the end) and -2 (the beginning) mean the same on the other side and stay; any other negative is an error.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from twinlog.client.pairs import LARGEST, Ask
from twinlog.errors import UsageError
from twinlog.jsonable import from_json


class Form(StrEnum):
    """Name how a document is written."""

    SPARK = "spark"
    SPARK_LOG = "spark-log"
    LIST = "list"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class OffsetDocument:
    """Offsets, their form, and the lines around them that are kept as they are."""

    form: Form
    entries: tuple[Ask, ...]
    head: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    wrapped: bool = False

    def write(self, entries: Sequence[Ask]) -> str:
        """Write the document with other entries, one for each of its own, in their order."""
        match self.form:
            case Form.CSV:
                return _csv(entries)
            case Form.LIST:
                rows = [
                    {"topic": entry.topic, "partition": entry.partition, "offset": entry.offset}
                    for entry in entries
                ]
                return _json({"version": 1, "partitions": rows} if self.wrapped else rows)
            case Form.SPARK:
                return _json(_spark(entries))
            case Form.SPARK_LOG:
                return self._spark_log(entries)

    def _spark_log(self, entries: Sequence[Ask]) -> str:
        lines = list(self.head)
        at = 0
        for number, count in enumerate(self.sources):
            if count:
                lines[2 + number] = json.dumps(_spark(entries[at : at + count]), separators=(",", ":"))
            at += count
        return "\n".join(lines)


def read_document(text: str, where: str) -> OffsetDocument:
    """Read offsets in any of the forms; `where` names the file in errors.

    Raises UsageError, with line or key, if the text is none of the forms, has a negative offset, or is empty.
    """
    stripped = text.strip()
    if not stripped:
        raise UsageError(f"{where} is empty", hint="give offsets; docs/client.md shows the forms", file=where)
    if stripped.splitlines()[0].strip() == "v1":
        found = _read_spark_log(text.rstrip("\n"), where)
    elif stripped[0] in "[{":
        found = _read_json(stripped, where)
    else:
        found = OffsetDocument(Form.CSV, tuple(_read_csv(stripped, where)))
    if not found.entries:
        raise UsageError(f"{where} holds no offset", hint="docs/client.md shows the forms", file=where)
    return found


def _read_json(text: str, where: str) -> OffsetDocument:
    try:
        content = from_json(text)
    except json.JSONDecodeError as error:
        _fail(where, f"line {error.lineno} is no JSON ({error.msg})")
    if isinstance(content, list):
        return OffsetDocument(Form.LIST, tuple(_from_list(content, where)))
    if isinstance(rows := content.get("partitions"), list):
        return OffsetDocument(Form.LIST, tuple(_from_list(rows, where)), wrapped=True)
    if not all(isinstance(it, dict) for it in content.values()):
        _fail(where, "is JSON of no form that is known")
    return OffsetDocument(Form.SPARK, tuple(_from_spark(content, where)))


def _from_list(rows: Sequence[Any], where: str) -> Iterator[Ask]:
    for number, row in enumerate(rows):
        match row:
            case {"topic": str(topic), "partition": partition, "offset": offset}:
                yield _entry(where, f"entry {number}", topic, partition, offset)
            case _:
                _fail(where, f"entry {number} has not topic, partition and offset")


def _from_spark(content: Mapping[str, Any], where: str) -> Iterator[Ask]:
    for topic, partitions in content.items():
        for partition, offset in partitions.items():
            key = f"key {topic!r}, {partition!r}"
            yield _entry(where, key, topic, partition, offset, spark=True)


def _read_spark_log(text: str, where: str) -> OffsetDocument:
    lines = text.splitlines()
    if len(lines) < 3:
        _fail(where, "is cut off: behind v1 and the metadata there is no source")
    entries: list[Ask] = []
    counts: list[int] = []
    for number, line in enumerate(lines[2:], start=3):
        found: list[Ask] = []
        if line.strip() not in {"-", ""}:
            try:
                content = from_json(line)
            except json.JSONDecodeError as error:
                _fail(where, f"line {number} is no JSON ({error.msg})")
            if not isinstance(content, dict) or not all(isinstance(it, dict) for it in content.values()):
                _fail(where, f"line {number} is not a Kafka source's offsets")
            found = list(_from_spark(content, where))
        entries += found
        counts.append(len(found))
    return OffsetDocument(Form.SPARK_LOG, tuple(entries), tuple(lines), tuple(counts))


def _read_csv(text: str, where: str) -> Iterator[Ask]:
    for number, row in enumerate(csv.reader(io.StringIO(text), skipinitialspace=True), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        match cells:
            case [topic, partition, offset]:
                yield _entry(where, f"line {number}", topic, partition, offset)
            case [group, topic, partition, offset]:
                yield _entry(where, f"line {number}", topic, partition, offset, group=group)
            case _:
                _fail(
                    where, f"line {number} is neither topic,partition,offset nor group,topic,partition,offset"
                )


def _entry(
    where: str, key: str, topic: str, partition: Any, offset: Any, *, group: str = "", spark: bool = False
) -> Ask:
    number, position = _whole(partition), _whole(offset)
    if number is None or number < 0:
        _fail(where, f"{key}: partition {partition!r} is no partition number")
    if position is None:
        _fail(where, f"{key}: offset {offset!r} is no whole number")
    special = spark and position in {-1, -2}
    if position < 0 and not special:
        _fail(where, f"{key}: offset {position} is negative")
    if position > LARGEST:
        _fail(where, f"{key}: offset {position} is larger than any of Kafka's")
    return Ask(topic, number, position, group, special)


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    try:
        return int(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _spark(entries: Sequence[Ask]) -> dict[str, dict[str, int]]:
    result: dict[str, dict[str, int]] = {}
    for entry in entries:
        result.setdefault(entry.topic, {})[str(entry.partition)] = entry.offset
    return result


def _csv(entries: Sequence[Ask]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for entry in entries:
        row = [entry.topic, entry.partition, entry.offset]
        writer.writerow([entry.group, *row] if entry.group else row)
    return out.getvalue()


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False) + "\n"


def _fail(where: str, why: str) -> NoReturn:
    raise UsageError(f"{where}: {why}", hint="docs/client.md shows the forms", file=where)

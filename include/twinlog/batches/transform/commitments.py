"""Add the headers that commit to what rules hide (twinlog.transforms.commitments) to records by column."""

from __future__ import annotations

import numpy as np

from twinlog.batches import varint
from twinlog.batches.columns import Columns
from twinlog.batches.routed import RoutedRecord, headers_at
from twinlog.batches.transform.fields import Fields, with_rests
from twinlog.batches.transform.header_columns import bad_record
from twinlog.transforms.commitments import HEADER, Committing

_NAME = varint.encode(len(HEADER)) + HEADER


def with_commitments(records: Columns, before: Columns, committing: Committing) -> Columns:
    """Return what the rules left of records, with commitments to what they held before, behind their own headers.

    Raises FormatError for a record whose headers cannot be counted.
    """
    if not len(records):
        return records
    earlier, now = Fields.of(before), Fields.of(records)
    changed: list[tuple[int, bytes]] = []
    rows = np.asarray(np.searchsorted(before.offsets, records.offsets))
    for index, row in enumerate(rows.tolist()):
        at, size = int(earlier.values[row]), int(earlier.value_sizes[row])
        if size < 0:
            continue
        offset = int(records.offsets[index])
        made = committing.of(offset, bytes(before.data[at : at + size]))
        if made:
            rest = records.data[int(records.starts[index]) : int(records.ends[index])]
            headers = int(now.headers[index] - records.starts[index])
            texts = [str(it).encode() for it in made]
            changed.append((index, _with_headers(rest, headers, texts, offset)))
    return with_rests(records, changed) if changed else records


def with_commitments_of_routed(
    routed: list[RoutedRecord], before: Columns, committing: Committing
) -> list[RoutedRecord]:
    """Return routed records with commitments to what the rules, up to the one that routes, hid of them."""
    if not routed:
        return routed
    earlier = Fields.of(before)
    made = []
    for it in routed:
        row = int(np.searchsorted(before.offsets, it.offset))
        at, size = int(earlier.values[row]), int(earlier.value_sizes[row])
        value = bytes(before.data[at : at + size]) if size >= 0 else None
        found = committing.of(it.offset, value, it.rule) if value is not None else []
        texts = [str(one).encode() for one in found]
        rest = memoryview(it.rest)
        made.append(
            it._replace(rest=_with_headers(rest, headers_at(rest), texts, it.offset)) if texts else it
        )
    return made


def _with_headers(rest: memoryview, at: int, texts: list[bytes], offset: int) -> bytes:
    """Return a record's end, whose headers begin at a position, with more of them."""
    count, behind = varint.decode(rest, at)
    if count < 0:
        raise bad_record(offset)
    added = (part for text in texts for part in (_NAME, varint.encode(len(text)), text))
    return b"".join((rest[:at], varint.encode(count + len(texts)), rest[behind:], *added))

"""Read a whole ledger repeatedly: each record is parsed once, and again only if its bytes have changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.parts import is_part, is_split, joined, part_keys
from twinlog.formats.ledger.records import LedgerRecord, left_kind, parse_ledger, require_known
from twinlog.formats.ledger.writers import LaneWriter

R = TypeVar("R", bound=LedgerEntry)


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """The records of a ledger, in the order of its keys; `left_over` are keys of parts that belong to no record.

    `passed_over` are the kinds it has that only earlier releases read.
    """

    records: tuple[LedgerRecord, ...]
    left_over: tuple[bytes, ...] = ()
    passed_over: frozenset[str] = frozenset()


class _Parsed(NamedTuple):
    """A parsed record: its bytes, its content, the keys of its parts."""

    value: bytes
    record: LedgerRecord
    parts: tuple[bytes, ...]


class LedgerReading:
    """The parsed records of one ledger, by key; kept from one reading to the next.

    Invariant: only the results of the last reading are held, so they are no larger than the ledger.
    """

    def __init__(self) -> None:
        # One value, so that readers in two threads never leave a mixture of two readings.
        self._last: tuple[Mapping[bytes, _Parsed], ReadLedger] = ({}, ReadLedger(()))

    def read(self, latest: Mapping[bytes, bytes | None]) -> ReadLedger:
        """Read the ledger's values by key; return the same object again if nothing has changed.

        Raises FormatError as `parse_ledger`, and for a record with a missing part.
        """
        before, found = self._last
        known: dict[bytes, _Parsed] = {}
        parts: list[bytes] = []
        named: set[bytes] = set()
        passed: frozenset[str] = frozenset()
        changed = False
        for key, value in latest.items():
            if value is not None and (kind := left_kind(key)):
                passed |= {kind}
                named.update(part_keys(value) if is_split(value) else ())
                continue
            seen = before.get(key)
            if seen is None or seen.value != value:
                if value is None:
                    continue
                if is_part(key):
                    parts.append(key)
                    continue
                seen, changed = _parsed(key, value, latest), True
            known[key] = seen
            if seen.parts:
                named.update(seen.parts)
        left = tuple(key for key in parts if key not in named)
        if changed or len(known) != len(before) or (left, passed) != (found.left_over, found.passed_over):
            found = ReadLedger(tuple(each.record for each in known.values()), left, passed)
        self._last = known, found
        return found

    def parts_of(self, key: bytes) -> tuple[bytes, ...]:
        """Return the keys of a record's parts, as of the last reading."""
        seen = self._last[0].get(key)
        return seen.parts if seen is not None else ()


def _parsed(key: bytes, value: bytes, latest: Mapping[bytes, bytes | None]) -> _Parsed:
    parts = tuple(part_keys(value)) if is_split(value) else ()
    record = parse_ledger(key, joined(key, value, latest) if parts else value)
    assert record is not None  # only a tombstone is none
    return _Parsed(value, record, parts)


def parse_whole(key: bytes, latest: Mapping[bytes, bytes | None]) -> LedgerRecord | None:
    """Parse one record of a ledger, whole or in parts; None for a tombstone, for a part, and for a kind that left.

    Raises FormatError as `LedgerReading.read`.
    """
    value = latest[key]
    return None if value is None or is_part(key) or left_kind(key) else _parsed(key, value, latest).record


def of_kind(latest: Mapping[bytes, bytes | None], kind: type[R]) -> Iterator[R]:
    """Yield the records of one kind, for kinds that are never written in parts.

    Raises FormatError if one of them cannot be read, and for a record of an unknown kind.
    """
    begin = f'["{kind.KIND}"'.encode()
    for key, value in latest.items():
        require_known(key)
        if value is not None and key.startswith(begin):
            record = parse_ledger(key, value)
            if isinstance(record, kind):
                yield record


def lane_writers(latest: Mapping[bytes, bytes | None]) -> set[int]:
    """Return the producer ids of all lanes that a ledger (value by key) knows.  Raises FormatError as `of_kind`."""
    return {writer.producer_id for writer in of_kind(latest, LaneWriter)}

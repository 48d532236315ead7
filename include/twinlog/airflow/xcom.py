"""A step's result as XCom keeps it: whole, unless it is of thousands of partitions.  Pure.

XCom is a table of the metadata database, and a flow's Dag may write to it every minute: reports of ten thousand
partitions would be gigabytes a day.  What later tasks need of such a report they read from Kafka, as the gate does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

WHOLE_ITEMS = 300
"""Items of all its lists, lists in lists included, up to which a result is kept as it is."""

FIRST_ITEMS = 100
"""Of a larger one, items kept of each list; lists in these are emptied."""

NOT_SHOWN = "not_shown"
"""The key under which a result that was cut says how many items of each list are missing, by the list's name."""

Json = Mapping[str, Any]


def shortened(result: Json) -> Json:
    """Return `result`, or a copy of it with its lists cut and what is missing counted."""
    if _items(result) <= WHOLE_ITEMS:
        return result
    missing: Counter[str] = Counter()
    kept = _cut(result, FIRST_ITEMS, missing)
    return {**kept, NOT_SHOWN: dict(missing)}


def all_of(result: Json, name: str) -> int:
    """How many items a list had before it may have been cut."""
    return len(result[name]) + int(result.get(NOT_SHOWN, {}).get(name, 0))


def _items(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(_items(each) for each in value.values())
    if isinstance(value, list):
        return len(value) + sum(_items(each) for each in value)
    return 0


def _cut(item: Json, most: int, missing: Counter[str]) -> dict[str, Any]:
    return {
        name: _first(name, value, most, missing) if isinstance(value, list) else value
        for name, value in item.items()
    }


def _first(name: str, items: list[Any], most: int, missing: Counter[str]) -> list[Any]:
    for left_out in items[most:]:
        missing[name] += 1
        if isinstance(left_out, Mapping):
            _cut(left_out, 0, missing)
    return [_cut(item, 0, missing) if isinstance(item, Mapping) else item for item in items[:most]]

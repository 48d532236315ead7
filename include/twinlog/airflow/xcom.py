"""A step's result as XCom keeps it: whole, unless it is of thousands of partitions.  Pure.

XCom is a table of the metadata database, and a flow's Dag may write to it every minute: reports of ten thousand
partitions would be gigabytes a day.  Later tasks ask of what is cut only whether there is anything to copy, how many
partitions (`all_of`), and what has stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from twinlog.jsonable import Json

WHOLE_ITEMS = 300
"""Items of all its lists, lists in lists included, up to which a result is kept as it is."""

FIRST_ITEMS = 100
"""Of a larger one, items kept of each list; lists in these are emptied."""

NOT_SHOWN = "not_shown"
"""The key under which a result that was cut says how many items of each list are missing, by the list's name."""


def shortened(result: Json) -> Json:
    """Return `result`, or a copy of it with its lists cut and what is missing counted."""
    there = _lengths(result)
    if there.total() <= WHOLE_ITEMS:
        return result
    kept: Json = _cut(result, FIRST_ITEMS)
    return {**kept, NOT_SHOWN: dict(there - _lengths(kept))}


def all_of(result: Json, name: str) -> int:
    """How many items a list had before it may have been cut."""
    return len(result[name]) + int(result.get(NOT_SHOWN, {}).get(name, 0))


def _lengths(value: Any, name: str = "") -> Counter[str]:
    """Count the items of all lists by the lists' names; a list in a list has the outer one's."""
    found: Counter[str] = Counter()
    if isinstance(value, Mapping):
        for key, each in value.items():
            found.update(_lengths(each, key))
    elif isinstance(value, list):
        found[name] = len(value)
        for each in value:
            found.update(_lengths(each, name))
    return found


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _cut(each, most) for name, each in value.items()}
    if isinstance(value, list):
        return [_cut(each, 0) for each in value[:most]]
    return value

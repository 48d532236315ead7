"""Fit a step's result into XCom, whole if it is small and never more than `MOST_BYTES`, and into a task's log.  Pure.

XCom is a table of the metadata database, and a flow's Dag may write to it every minute: reports of ten thousand
partitions would be gigabytes a day.  If a result is cut, the first items of every list are kept, the others are
counted (`not_shown`), and `whole_in` says where all of it is.  Later tasks need from it only whether there is anything
to copy, how many partitions (`all_of`), and which have stopped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from twinlog.airflow.words import in_airflow
from twinlog.jsonable import NOT_SHOWN, Json
from twinlog.visible import singular, visible

MOST_BYTES = 48 * 1024
"""The most bytes of a task's result as JSON; with Airflow's additions it stays below 64 KiB."""

FIRST = ((100, 2_000), (100, 200), (50, 200), (20, 200), (5, 200), (0, 200))
"""For a larger result: items of each list (lists in these are emptied) and characters of each text, as many as fit."""

MOST_KEYS = 100
"""A mapping with more entries is treated as a list under names, not as an object with fields."""

WHOLE_IN = "whole_in"
"""The key under which a cut result says where the whole of it is."""

MOST_ITEMS = 40
"""The most items of a list in the log."""

MOST_CHARACTERS = 1_000
"""The most characters of one line of the log."""


def shortened(result: Json, whole_in: str, **orders: Callable[[Any], Any]) -> Json:
    """Return `result`, or a copy of it that is small enough, with the missing items counted.

    `orders` gives, by the names of lists, the sort key that decides which items come first in a cut list.
    """
    if _bytes(result) <= MOST_BYTES:
        return result
    result = {**result, **{name: sorted(result[name], key=order) for name, order in orders.items()}}
    kept: Json = {}
    for items, characters in FIRST:
        missing: Counter[str] = Counter()
        cut = _cut(result, items, characters, missing)
        kept = {**cut, NOT_SHOWN: dict(+missing), WHOLE_IN: whole_in}
        if _bytes(kept) <= MOST_BYTES:
            break
    return kept


def shortened_text(lines: Sequence[str], whole_in: str) -> str:
    """Join lines up to `MOST_BYTES`; a last one counts the others and says where they are."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > MOST_BYTES:
            return "\n".join([*lines[:number], f"... and {len(lines) - number} lines more: {whole_in}"])
    return "\n".join(lines)


def table(rows: Sequence[tuple[str, str]], whole_in: str) -> str:
    """Return rows as a table in Markdown that nothing in them can end, up to `MOST_BYTES`.  Pure."""
    lines = [f"| {escaped(name)} | {escaped(text)} |" for name, text in rows]
    return shortened_text(["| | |", "|---|---|", *lines], whole_in)


def escaped(text: str) -> str:
    """Escape all that Markdown and HTML could take for theirs."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", singular(visible(short(text, MOST_CHARACTERS))))


def all_of(result: Json, name: str) -> int:
    """Return how many items a list had before it was cut."""
    return len(result[name]) + int(result.get(NOT_SHOWN, {}).get(name, 0))


def short(text: str, most: int) -> str:
    """Cut a text, and say by how much."""
    return text if len(text) <= most else f"{text[:most]} ... and {len(text) - most} characters more"


def _bytes(result: Json) -> int:
    return len(json.dumps(result).encode())


def _cut(value: Any, items: int, characters: int, missing: Counter[str], name: str = "") -> Any:
    """Cut a value, and count by name the items that its lists lose; a list in a list has the outer one's name."""
    if isinstance(value, Mapping):
        listed = len(value) > MOST_KEYS
        most = items if listed else len(value)
        pairs = [
            (key, _cut(each, items if number < most else 0, characters, missing, name if listed else key))
            for number, (key, each) in enumerate(value.items())
        ]
        missing[name] += len(pairs[most:])
        return dict(pairs[:most])
    if isinstance(value, list):
        missing[name] += len(value[items:])
        return [_cut(each, 0, characters, missing, name) for each in value][:items]
    return short(value, characters) if isinstance(value, str) else value


def lines_of(result: Json) -> Iterator[str]:
    """Yield a line for the plain facts of a result and for each mapping in it, and a few per list; long lines are cut.

    A group or a principal may have any name; it cannot start a new line.
    """
    return (short(visible(in_airflow(line)), MOST_CHARACTERS) for line in _lines_of(result))


def _lines_of(result: Json) -> Iterator[str]:
    facts = {name: value for name, value in result.items() if not isinstance(value, list | Mapping)}
    yield _facts(facts)
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield f"{name}: {_item(value) or 'none'}"
        elif isinstance(value, list):
            yield f"{name}: {len(value)}" if value else f"{name}: none"
            yield from (f"  {_item(item)}" for item in value[:MOST_ITEMS])
            if len(value) > MOST_ITEMS:
                yield f"  and {len(value) - MOST_ITEMS} more"


def _item(item: Any) -> str:
    if isinstance(item, Mapping):
        return _facts({name: _short(value) for name, value in item.items()})
    return str(_short(item))


def _short(value: Any) -> Any:
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return len(value)
    return value


def _facts(facts: Json) -> str:
    """Write `name=value` for every value that is not empty."""
    return " ".join(f"{name}={value}" for name, value in facts.items() if value not in ("", None, [], {}))

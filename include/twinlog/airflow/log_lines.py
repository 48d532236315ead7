"""A step's result as lines for the task log.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twinlog.airflow.xcom import short
from twinlog.visible import visible

MOST_ITEMS = 40


MOST_CHARACTERS = 1_000


"""The most characters of one line."""


def lines_of(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for the plain facts of a result, then a few lines per list in it; long lines are cut.

    A group or a principal may have any name; it cannot start a new line.
    """
    return (short(visible(line), MOST_CHARACTERS) for line in _lines_of(result))


def _lines_of(result: Mapping[str, Any]) -> Iterator[str]:
    facts = {name: value for name, value in result.items() if not isinstance(value, list | Mapping)}
    yield _facts(facts)
    for name, value in result.items():
        items = [value] if isinstance(value, Mapping) else value
        if not isinstance(items, list):
            continue
        yield f"{name}: {len(items)}" if items else f"{name}: none"
        yield from (f"  {_item(item)}" for item in items[:MOST_ITEMS])
        if len(items) > MOST_ITEMS:
            yield f"  and {len(items) - MOST_ITEMS} more"


def _item(item: Any) -> str:
    if isinstance(item, Mapping):
        return _facts({name: _short(value) for name, value in item.items()})
    return str(_short(item))


def _short(value: Any) -> Any:
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return len(value)
    return value


def _facts(facts: Mapping[str, Any]) -> str:
    """Write `name=value` for every value that is not empty."""
    return " ".join(f"{name}={value}" for name, value in facts.items() if value not in ("", None, [], {}))

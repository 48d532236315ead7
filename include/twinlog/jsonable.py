"""Turn frozen results into plain JSON, for XCom, `--output json`, the ledger and Spark rows."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
"""A result in the form that `to_json` returns."""

NOT_SHOWN = "not_shown"
"""The key under which a shortened result counts, by the name of each list, the items missing from that list."""


def from_json(text: str | bytes, **how: Any) -> Any:
    """Parse JSON that others wrote.  Raises JSONDecodeError for what is none, or is nested too deeply to be read."""
    try:
        return json.loads(text, **how)
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deeply", "", 0) from None


def to_json(value: Any) -> Any:
    """Turn frozen dataclasses, tuples, enums and times into dicts, lists, strings and numbers.

    Fields that `repr` leaves out, such as secrets, are left out here, too.  Raises TypeError for any other type: a
    result that has no JSON form is a mistake in the result.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_json(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.repr
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")

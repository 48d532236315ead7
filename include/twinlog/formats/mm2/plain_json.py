"""JSON as keys and values of internal topics have it: no blanks, the fields in their order, nothing escaped."""

from __future__ import annotations

import json
from typing import Any

from twinlog.errors import FormatError

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    """Write a value, byte for byte as Connect's converter does."""
    return _ENCODER.encode(value).encode()


def parsed_json(data: bytes, what: str) -> Any:
    """Read what `what` names in the error.  Raises FormatError for what is not JSON."""
    try:
        return json.loads(data)
    except ValueError:  # JSON's and Unicode's errors are both
        raise FormatError(f"{what} is not JSON", bytes=data.hex()) from None

"""Write JSON as in keys and values of internal topics: no blanks, fields in their order, nothing escaped."""

from __future__ import annotations

import json
from typing import Any

from twinlog.errors import FormatError

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    """Encode a value, byte for byte as Connect's converter does."""
    return _ENCODER.encode(value).encode()


def parsed_json(data: bytes, what: str) -> Any:
    """Parse JSON.  Raises FormatError, which names `what`, if it is not JSON."""
    try:
        return json.loads(data)
    except ValueError:  # base class of both JSON's and Unicode's errors
        raise FormatError(f"{what} is not JSON", bytes=data.hex()) from None

"""Read wall-clock time as Kafka writes it: milliseconds since the epoch; and name what begins now."""

from __future__ import annotations

import datetime as dt
import time
import uuid


def now_ms() -> int:
    """Return the time by this machine's clock, in milliseconds since the epoch."""
    return int(time.time() * 1000)


def seconds_since(at_ms: int, now_ms: int) -> float:
    """Return the seconds from `at_ms` to `now_ms`; 0 if `at_ms` is later, by the fast clock of another machine."""
    return max(0, now_ms - at_ms) / 1000


def new_run_name(kind: str) -> str:
    """Return a name of a run that begins now, such as `drill-20261125T121612Z-0eb2a0`; names sort by time."""
    return f"{kind}-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"

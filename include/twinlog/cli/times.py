"""Parse moments and durations as people type them."""

from __future__ import annotations

import datetime as dt
import re

from twinlog.errors import UsageError

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_moment(text: str, option: str = "--until") -> int:
    """Read a moment as epoch ms: `2026-01-31T12:00:00Z` (UTC if no zone is given) or epoch ms itself.

    Raises UsageError for anything else.
    """
    if re.fullmatch(r"\d{12,14}", text):
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is no time", hint="write 2026-01-31T12:00:00Z") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def parse_duration(text: str, option: str = "--for") -> int:
    """Read a duration as seconds: `90s`, `10m`, `2h`, `1h30m`.  Raises UsageError for anything else."""
    if not re.fullmatch(r"(\d{1,9}[smhd])+", text):
        raise UsageError(f"{option}: {text!r} is no duration", hint="write 90s, 10m or 1h30m")
    return sum(int(count) * SECONDS[unit] for count, unit in re.findall(r"(\d+)([smhd])", text))

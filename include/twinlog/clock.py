"""Read wall-clock time as Kafka writes it, in milliseconds since the epoch, and times as people write them.

Runs that begin now get their names here.
"""

from __future__ import annotations

import datetime as dt
import re
import time
import uuid

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def moment_ms(text: str) -> int | None:
    """Read a moment as epoch ms: `2026-01-31T12:00:00Z` (UTC if no zone is given) or epoch ms itself; else None."""
    if re.fullmatch(r"\d{12,14}", text):
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def duration_seconds(text: str, units: str = "smhd") -> int | None:
    """Read a duration in some units as seconds: `90s`, `10m`, `2h`, `1h30m`, `7d`; None for anything else."""
    if not re.fullmatch(rf"(\d{{1,9}}[{units}])+", text):
        return None
    return sum(int(count) * _UNITS_S[unit] for count, unit in re.findall(rf"(\d+)([{units}])", text))


def now_ms() -> int:
    """Return the time by this machine's clock, in milliseconds since the epoch."""
    return int(time.time() * 1000)


def seconds_between(at_ms: int, now_ms: int) -> float:
    """Return the seconds from `at_ms` to `now_ms`; 0 if `at_ms` is later, by the fast clock of another machine."""
    return max(0, now_ms - at_ms) / 1000


CLOCKS_APART_MS = 60_000
"""Milliseconds that a time may lie in the future and still count as now: its clock is ahead of ours."""


def seconds_since(at_ms: int | None, now_ms: int) -> float | None:
    """Return the seconds from a time to now, both epoch ms; None if there is no such time, or it has yet to come."""
    if at_ms is None or at_ms > now_ms + CLOCKS_APART_MS:
        return None
    return seconds_between(at_ms, now_ms)


def is_due(schedule: str, since_ms: int, now_ms: int) -> bool:
    """Say whether a moment of the schedule (cron, UTC) lies after `since_ms` and not after `now_ms`."""
    from croniter import croniter

    if since_ms > now_ms:
        return False
    since = dt.datetime.fromtimestamp(max(0, since_ms) / 1000, dt.UTC)
    following: float = croniter(schedule, since).get_next(float)
    return following * 1000 <= now_ms


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_GREGORIAN_YEARS, _GREGORIAN_MS = 400, 146_097 * 86_400_000
"""After 400 years the calendar begins anew."""


def iso(milliseconds: int, timespec: str = "seconds") -> str:
    """Write an epoch time as ISO 8601 in UTC, of any size: records, ledgers and members of a group may name any.

    A year that `datetime` cannot hold has a sign and as many digits as it needs, as in `+58751-08-24T09:43:20+00:00`.
    """
    times, rest = divmod(milliseconds, _GREGORIAN_MS)
    moment = _EPOCH + dt.timedelta(milliseconds=rest)
    year = moment.year + times * _GREGORIAN_YEARS
    shown = f"{year:04d}" if 0 <= year <= dt.MAXYEAR else f"{year:+05d}"
    return shown + moment.isoformat(timespec=timespec)[4:]


def new_run_name(kind: str) -> str:
    """Return a name of a run that begins now, such as `drill-20261125T121612Z-0eb2a0`; names sort by time."""
    return f"{kind}-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"

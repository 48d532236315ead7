"""The request of one Dag run: the trigger form and the data interval as one frozen value.  Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twinlog.errors import UsageError

BOUNDED_RUN_TYPES = frozenset({"backfill"})


@dataclass(frozen=True, slots=True)
class CycleRequest:
    """One cycle: `topics` empty means every topic of the flow; `until_ms` None means up to now.

    `until_ms` is a record timestamp (epoch ms): the copy ends before the first record with that timestamp or a later
    one.  `follow_seconds` is how long a run of a continuous Dag follows the source at most.
    """

    topics: tuple[str, ...] = ()
    dry_run: bool = False
    until_ms: int | None = None
    follow_seconds: float | None = None


def request_of(context: Mapping[str, Any]) -> CycleRequest:
    """Return what the Dag run of an Airflow task context asks for."""
    run = context["dag_run"]
    return cycle_request(context["params"], run_type=run.run_type.value, interval_end=run.data_interval_end)


def cycle_request(
    params: Mapping[str, Any], *, run_type: str, interval_end: dt.datetime | None
) -> CycleRequest:
    """Return what the trigger form asks for; its `until` overrides the data interval.

    A backfill run ends at its data interval.  A scheduled or manual run copies up to now: its interval ended moments
    ago anyway, and a record stamped in the future by a producer with a wrong clock would otherwise hold its partition
    back until that time.
    """
    until = parse_time("until", params["until"]) if params.get("until") else None
    if until is None and run_type in BOUNDED_RUN_TYPES:
        until = interval_end
    return CycleRequest(
        topics=tuple(params.get("topics") or ()),
        dry_run=bool(params.get("dry_run")),
        until_ms=None if until is None else round(until.timestamp() * 1000),
    )


def parse_time(field: str, text: str) -> dt.datetime:
    """Return the time in a field of a trigger form, UTC if it names no zone.  Raises UsageError for another text."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            f"{field}: {text!r} is no time", hint="write 2026-01-31T12:00:00Z", **{field: text}
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)

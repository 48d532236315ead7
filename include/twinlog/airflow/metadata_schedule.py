"""Decide when the metadata of a flow is synced, by MM2's intervals.  Pure."""

from __future__ import annotations

import datetime as dt

from twinlog.config.flow.settings import FlowSettings
from twinlog.metadata.read import Subject, intervals

BY_TURNS = frozenset({"scheduled", "backfill"})
"""Types of Dag runs whose data interval decides which subjects are due."""


def run_every(flow: FlowSettings) -> dt.timedelta | None:
    """Return the interval of the Dag: that of its most frequent subject, None if there is none."""
    seconds = min(intervals(flow).values(), default=None)
    return None if seconds is None else dt.timedelta(seconds=seconds)


def due(
    flow: FlowSettings, run_type: str, start: dt.datetime | None, end: dt.datetime | None
) -> frozenset[Subject]:
    """Return what a run over [`start`, `end`) syncs: everything if started by hand, else the subjects that are due.

    A subject is due if its interval, counted from the epoch, ends within the run's.  A run by hand also has an
    interval, the one before the logical date in the trigger form; it is ignored.
    """
    if run_type not in BY_TURNS or start is None or end is None or start == end:
        return frozenset(intervals(flow))
    first, last = start.timestamp(), end.timestamp()
    return frozenset(
        subject for subject, seconds in intervals(flow).items() if first // seconds != last // seconds
    )

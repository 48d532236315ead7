"""When the metadata of a flow is synced, by MM2's intervals.  Pure."""

from __future__ import annotations

import datetime as dt

from twinlog.config.flow.settings import FlowSettings
from twinlog.metadata.read import Subject, subjects_of

BY_TURNS = frozenset({"scheduled", "backfill"})
"""Types of Dag runs whose data interval says what has its turn."""


def intervals(flow: FlowSettings) -> dict[Subject, int]:
    """Return the seconds between two syncs of each subject the flow syncs.

    MM2 has an interval for configs and one for ACLs; quotas go with the configs, users with the ACLs.
    """
    configs, acls = flow.sync_topic_configs_interval_seconds, flow.sync_topic_acls_interval_seconds
    every = {
        Subject.CONFIGS: configs,
        Subject.QUOTAS: configs,
        Subject.ACLS: acls,
        Subject.SCRAM: acls,
    }
    return {subject: every[subject] for subject in sorted(subjects_of(flow))}


def run_every(flow: FlowSettings) -> dt.timedelta | None:
    """Return how often the Dag runs: as often as its most frequent subject, None when there is none."""
    seconds = min(intervals(flow).values(), default=None)
    return None if seconds is None else dt.timedelta(seconds=seconds)


def due(
    flow: FlowSettings, run_type: str, start: dt.datetime | None, end: dt.datetime | None
) -> frozenset[Subject]:
    """Return what a run over [`start`, `end`) syncs: everything by hand, else what has its turn in it.

    A subject has its turn when its interval, counted from the epoch, ends within the run's.  A run by hand has an
    interval too, the one before the logical date that the trigger form fills in: it says nothing.
    """
    if run_type not in BY_TURNS or start is None or end is None or start == end:
        return frozenset(intervals(flow))
    first, last = start.timestamp(), end.timestamp()
    return frozenset(
        subject for subject, seconds in intervals(flow).items() if first // seconds != last // seconds
    )

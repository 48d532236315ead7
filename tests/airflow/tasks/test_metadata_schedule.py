"""How often metadata is synced, and what has its turn in a run."""

import datetime as dt
from dataclasses import replace

import pytest

from twinlog.airflow.tasks.metadata import due, run_every
from twinlog.config.flow.metadata import MetadataSettings
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.metadata.subjects import Subject

MIDNIGHT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def flow() -> FlowSettings:
    """A->B with configs every 600 s and ACLs every 60 s."""
    ends = [
        ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),))) for alias in "AB"
    ]
    return FlowSettings(*ends, sync_topic_acls_interval_seconds=60)


def test_the_dag_runs_as_often_as_its_most_frequent_subject(flow):
    """And has no schedule when nothing is synced."""
    assert dt.timedelta(seconds=60) == run_every(flow)
    assert dt.timedelta(seconds=600) == run_every(replace(flow, sync_topic_acls=False))
    nothing = replace(flow, sync_topic_acls=False, sync_topic_configs=False)
    assert run_every(nothing) is None
    assert dt.timedelta(seconds=600) == run_every(replace(nothing, metadata=MetadataSettings(quotas=True)))


def test_each_subject_has_its_turn_as_often_as_its_interval_says(flow):
    """Over an hour of runs: 60 of ACLs, 6 of configs."""
    minute = dt.timedelta(minutes=1)
    turns = [due(flow, "scheduled", MIDNIGHT + n * minute, MIDNIGHT + (n + 1) * minute) for n in range(60)]
    assert 60 == sum(Subject.ACLS in turn for turn in turns)
    assert 6 == sum(Subject.CONFIGS in turn for turn in turns)


def test_a_run_by_hand_syncs_everything(flow):
    """Whatever its interval: none, an empty one, or the one that the trigger form's logical date leads to."""
    everything = frozenset({Subject.CONFIGS, Subject.ACLS})
    assert everything == due(flow, "manual", None, None) == due(flow, "manual", MIDNIGHT, MIDNIGHT)
    ended = MIDNIGHT + dt.timedelta(minutes=35)
    interval = (ended - dt.timedelta(minutes=1), ended)
    assert frozenset({Subject.ACLS}) == due(flow, "scheduled", *interval)
    for run_type in ("manual", "operator_triggered", "asset_triggered"):
        assert everything == due(flow, run_type, *interval)

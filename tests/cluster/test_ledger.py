"""The ledger as a state, and its way in and out of a cluster."""

import pytest

from twinlog.cluster.fake import FakeCluster
from twinlog.cluster.ledger import Ledger, ledger_from, read_ledger, write_ledger
from twinlog.cluster.values import TopicPartition
from twinlog.config.connection import ConnectionSettings
from twinlog.config.settings import ClusterSettings, FlowSettings
from twinlog.errors import FormatError
from twinlog.formats.ledger import FlowPhase, FlowState, Gap, GapCause, Incarnation

FLOW = FlowSettings(*(ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "AB"))


@pytest.fixture
def target() -> FakeCluster:
    cluster = FakeCluster("B")
    cluster.add_topic(FLOW.ledger_topic)
    return cluster


def test_without_a_ledger_nothing_is_known():
    """Before the first cycle the topic does not exist."""
    assert Ledger() == read_ledger(FLOW, FakeCluster("B"))
    assert FlowPhase.ACTIVE == Ledger().phase


def test_what_is_written_is_read(target):
    """Each kind finds its place; a record replaces the one with its key."""
    gap = Gap("t", 0, 5, 9, GapCause.RETENTION, 1, 5)
    write_ledger(FLOW, target, [gap, FlowState(FlowPhase.ACTIVE, 1, "me", "why")])
    write_ledger(FLOW, target, [FlowState(FlowPhase.PAUSED, 2, "me", "why")])
    ledger = read_ledger(FLOW, target)
    assert ((gap,), FlowPhase.PAUSED) == (ledger.gaps, ledger.phase)


def test_the_newest_life_of_a_topic_counts():
    """All lives are kept, in order."""
    old, new = Incarnation("t", "one", 1, "A.t"), Incarnation("t", "two", 2, "A.t")
    ledger = ledger_from([new, old])
    assert ({"t": new}, (old, new)) == (ledger.incarnations, ledger.lives)


def test_a_ledger_of_a_later_version_is_not_guessed_at(target):
    """It may hold what forbids a copy."""
    target.append(TopicPartition(FLOW.ledger_topic, 0), key=b'["moratorium"]', value=b'{"version":1}')
    with pytest.raises(FormatError, match="moratorium"):
        read_ledger(FLOW, target)


def test_nothing_to_write_asks_nothing(target):
    """An empty write does not reach the cluster."""
    write_ledger(FLOW, target, [])
    assert [] == target.calls

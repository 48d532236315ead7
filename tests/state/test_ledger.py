"""The ledger as a state, and its way in and out of a cluster."""

import pytest
from fake_cluster import FakeCluster

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import FormatError, TransientError
from twinlog.formats.ledger.parts import LEFT_OVER_MS, is_part
from twinlog.formats.ledger.records import FlowPhase, FlowState, Gap, GapCause, Incarnation
from twinlog.formats.ledger.topics import GroupPosition, Rebuild, RebuildPhase
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import (
    Ledger,
    drop_left_over,
    ledger_from,
    read_behind_fence,
    read_ledger,
    write_ledger,
)

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


def test_behind_a_fence_a_missing_ledger_is_no_empty_one(target):
    """The fence was written there: a broker that does not know the topic lags, or the memory is lost."""
    write_ledger(FLOW, target, [FlowState(FlowPhase.PAUSED, 2, "me", "why")])
    assert FlowPhase.PAUSED is read_behind_fence(FLOW, target).phase
    del target.topics[FLOW.ledger_topic]
    with pytest.raises(TransientError, match="is not known to B any more"):
        read_behind_fence(FLOW, target)


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
    assert ({"t": new}, (old, new)) == (ledger.incarnations, ledger.every_incarnation)


def test_a_ledger_of_a_later_version_is_not_guessed_at(target):
    """It may hold what forbids a copy."""
    target.append(TopicPartition(FLOW.ledger_topic, 0), key=b'["moratorium"]', value=b'{"version":1}')
    with pytest.raises(FormatError, match="moratorium"):
        read_ledger(FLOW, target)


def test_a_kind_that_left_is_passed_over_with_one_warning(target, caplog):
    """Release 0.2 wrote looks at groups, also in parts: nothing of them is lost, and the rest of the ledger is read."""
    place = TopicPartition(FLOW.ledger_topic, 0)
    gap = Gap("t", 0, 5, 9, GapCause.RETENTION, 1, 5)
    for at in (7, 8):
        value = b'{"version":1,"at_ms":%d,"positions":"packed","unseen":[]}' % at
        target.append(place, key=b'["group-look",%d]' % at, value=value)
    write_ledger(FLOW, target, [gap])
    assert ((gap,), ()) == (read_ledger(FLOW, target).gaps, read_ledger(FLOW, target).left_over)
    write_ledger(FLOW, target, [FlowState(FlowPhase.ACTIVE, 1, "me", "why")])
    assert (gap,) == read_ledger(FLOW, target).gaps
    [said] = [it.getMessage() for it in caplog.records if "group-look" in it.getMessage()]
    assert "which nothing reads any more: where groups stood (`groups --at`)" in said


def test_nothing_to_write_asks_nothing(target):
    """An empty write does not reach the cluster."""
    write_ledger(FLOW, target, [])
    assert [] == target.calls


def large(request: str, positions: int = 30_000) -> Rebuild:
    """Make the record of a rebuild with so many positions that it is written in parts."""
    groups = tuple(GroupPosition(f"group-{n // 100}", n % 100, n, n + 7) for n in range(positions))
    return Rebuild(
        "t", "id", "A.t", "old", RebuildPhase.COPYING, "me", "why", 1, groups=groups, request=request
    )


def test_a_record_of_a_hundred_thousand_positions_is_written_in_parts(target):
    """None of what stands in the log is over half of what a topic takes by default."""
    record = large("one", 100_000)
    write_ledger(FLOW, target, [record])
    stored = target.topics[FLOW.ledger_topic].logs[0].records
    assert {"t": record} == read_ledger(FLOW, target).rebuilds
    assert max(len(it.key) + len(it.value) for it in stored) < 1_048_588 // 2


def test_the_parts_of_a_record_go_with_it(target):
    """When it is written anew, and when it is taken out: what is known here need not wait to be swept."""
    write_ledger(FLOW, target, [large("one")])
    first = {key for key in target.latest(FLOW.ledger_topic) if is_part(key)}
    assert "one" == read_ledger(FLOW, target).rebuilds["t"].request
    write_ledger(FLOW, target, [large("two")])
    second = {key for key in target.latest(FLOW.ledger_topic) if is_part(key)}
    assert (True, set()) == (bool(first and second), first & second)
    after = read_ledger(FLOW, target)
    assert ("two", ()) == (after.rebuilds["t"].request, after.left_over)
    write_ledger(FLOW, target, (), [after.rebuilds["t"]])
    assert {} == dict(target.latest(FLOW.ledger_topic))


def test_parts_that_nothing_names_are_taken_out_in_time(target, monkeypatch):
    """Those of the record before, once an hour is over; the record stays whole."""
    now = clock.now_ms()
    for request, at in [("one", now - 2 * LEFT_OVER_MS), ("two", now)]:
        monkeypatch.setattr(clock, "now_ms", lambda at=at: at)
        write_ledger(FLOW, target, [large(request)])
    left = read_ledger(FLOW, target).left_over
    assert left
    drop_left_over(FLOW, target, read_ledger(FLOW, target))
    after = read_ledger(FLOW, target)
    assert ((), large("two")) == (after.left_over, after.rebuilds["t"])
    assert not {*left} & {*target.latest(FLOW.ledger_topic)}


def test_parts_that_were_written_just_now_are_left(target):
    """Their record may be on its way."""
    for request in ("one", "two"):
        write_ledger(FLOW, target, [large(request)])
    before = read_ledger(FLOW, target)
    drop_left_over(FLOW, target, before)
    assert before.left_over
    assert before is read_ledger(FLOW, target)

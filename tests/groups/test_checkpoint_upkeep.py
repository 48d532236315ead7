"""What bounds the topic of checkpoints, and what it never takes away."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog import clock
from twinlog.cluster.admin.groups import GroupPartition
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups import checkpoint_upkeep, checkpoints
from twinlog.groups.checkpoint_upkeep import DAY_MS, KEPT_MS, plan_cut
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import write_ledger
from twinlog.state.mm2_topics import DatedCheckpoint, newest_checkpoints

TOPIC = "A.checkpoints.internal"
NOW = 100 * DAY_MS


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Three are worth it."""
    monkeypatch.setattr(checkpoint_upkeep, "WORTH_IT", 3)


def key(group: str) -> GroupPartition:
    return GroupPartition(group, "A.orders", 0)


def dated(group: str, at_ms: int, offset: int) -> DatedCheckpoint:
    return DatedCheckpoint(Checkpoint(group, "A.orders", 0, 3, 3, ""), at_ms, offset)


ages = st.lists(st.tuples(st.integers(0, 90), st.booleans(), st.booleans()), min_size=1, max_size=12)


@given(ages)
def test_only_what_ended_long_ago_is_lost(groups):
    """A law: the young stay, and so does everything that has not ended; what is carried is not lost."""
    known = {
        key(f"g{n}"): dated(f"g{n}", NOW - days * DAY_MS, n)
        for n, (days, _, _) in enumerate(sorted(groups, reverse=True))
    }
    flags = {key(f"g{n}"): flag for n, (_, *flag) in enumerate(sorted(groups, reverse=True))}
    ended = {it for it, (gone, _) in flags.items() if gone}
    renewed = {it for it, (gone, again) in flags.items() if again and not gone}
    cut = plan_cut(known, ended, renewed, NOW)
    if cut is None:
        return
    carried = {key(it.checkpoint.group) for it in cut.carried}
    lost = {it for it, one in known.items() if one.offset < cut.before} - carried - renewed
    assert lost <= ended
    assert all(known[it].at_ms <= NOW - KEPT_MS for it in lost)
    assert cut.ended == len(lost) >= 3
    assert carried.isdisjoint(ended | renewed)


def test_nothing_is_deleted_where_nobody_looked_for_a_day():
    """The source may be another one, which has none of these groups."""
    old = {key(f"g{n}"): dated(f"g{n}", NOW - KEPT_MS - DAY_MS, n) for n in range(9)}
    young = {key("alive"): dated("alive", NOW - DAY_MS - 1, 9)}
    assert plan_cut(old | young, old, (), NOW) is None
    assert plan_cut({}, (), (), NOW) is None


@pytest.fixture
def years(flow, clusters, orders, copied, source, monkeypatch):
    """Ten jobs ended, one is hidden, one is alive; then a day passes, and more than a month.  Returns the last step."""
    copied(orders, 0, 5)
    names = [f"job-{number}" for number in range(10)]
    for group in ("hidden", *names, "alive"):
        source.commit(group, orders, 3)
    now = clock.now_ms()

    def at(days: int, **changes):
        monkeypatch.setattr(clock, "now_ms", lambda: now + days * DAY_MS)
        return checkpoints.run(replace(flow, **changes), clusters)

    at(0)
    source.delete_groups(["hidden", *names])
    source.refuse("committed_offsets", "hidden", ClusterRefused("A does not show it"))
    source.hides_groups = True
    at(30)
    return lambda **changes: at(31, **changes)


def standing(flow, target) -> dict[str, int]:
    return {it.group: dated.at_ms for it, dated in newest_checkpoints(flow, target)[0].items()}


def test_checkpoints_of_groups_that_ended_a_month_ago_are_deleted(years, flow, target):
    """Without a tombstone; a hidden group's is carried with the time it had, a living one's is as it was."""
    before = standing(flow, target)
    assert (10, 10) == ((result := years()).deleted, result.ended)
    after = standing(flow, target)
    assert ({"hidden", "alive"}, before["hidden"]) == (set(after), after["hidden"])
    assert all(it.value is not None for it in target.topics[TOPIC].logs[0].records)
    assert 0 == years().deleted


def test_a_topic_of_mm2s_is_told_first_that_nothing_expires(years, target):
    """By the order of the changes: for a moment without, brokers would delete by age."""
    target.topics[TOPIC].configs.update({"cleanup.policy": "compact"})
    target.topics[TOPIC].configs.pop("retention.ms", None)
    years()
    changes = [it for it in target.calls if it.startswith("config")]
    assert [f"config {TOPIC} retention.ms=-1", f"config {TOPIC} cleanup.policy=compact,delete"] == changes


@pytest.mark.parametrize("verb", ["delete_records", "topic_configs"])
def test_a_target_that_refuses_is_told_of(verb, years, target, monkeypatch):
    """Nothing is lost, and nothing is carried again and again."""
    monkeypatch.setattr(checkpoint_upkeep, "TAKES_EFFECT_S", 0.0)
    target.refuse(verb, TOPIC, ClusterRefused("B does not allow it"))
    result = years()
    assert (0, 10) == (result.deleted, result.ended)
    assert "B does not allow it" in result.notes[0]
    length = target.topics[TOPIC].logs[0].end
    years()
    assert length == target.topics[TOPIC].logs[0].end


def test_a_broker_that_still_works_by_the_old_configs_is_asked_again(years, target, monkeypatch):
    """It has answered to the change, and refuses to delete in a topic that is only compacted."""
    target.topics[TOPIC].configs.update({"cleanup.policy": "compact"})
    target.refuse("delete_records", TOPIC, ClusterRefused("Policy violation"))
    monkeypatch.setattr(time, "sleep", lambda _: target.allow("delete_records", TOPIC))
    result = years()
    assert (10, ()) == (result.deleted, result.notes)


def test_a_flow_that_is_paused_deletes_nothing(years, flow, target):
    """Nor one that failed over: its checkpoints may be what people work by."""
    write_ledger(flow, target, [FlowState(FlowPhase.PROMOTED, 0, "me", "a test")])
    assert 0 == years().deleted


def test_a_topic_with_strange_records_keeps_all(years, target):
    """Somebody wrote them, and may want them."""
    target.append(TopicPartition(TOPIC, 0), key=b"?", value=b"?", timestamp=1)
    assert 0 == years().deleted

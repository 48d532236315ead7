"""A topic that both sides have lost is forgotten as a whole, and never one that somebody has, or may need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.errors import ClusterRefused, TerminalError, UsageError
from twinlog.formats.ledger.metadata import TopicConfigsSet
from twinlog.formats.ledger.records import FlowPhase, FlowState, Gap, GapCause, Quarantine
from twinlog.formats.ledger.topics import Beginning, DeletedTopic, Incarnation, LeaderEpoch, TopicPause
from twinlog.lifecycle import forget, sync_topics
from twinlog.state import ledger
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.state.progress import read_packed, read_progress
from twinlog.steps import discover
from twinlog.topics.discovery import ProblemCode

DAY = 86_400_000


def about(topic: str, copy: str, topic_id: str) -> list:
    """Everything a ledger can have of a topic, of an earlier life, too."""
    return [
        Incarnation(topic, "earlier", 1, copy, "", "cluster-A", 1),
        Incarnation(topic, topic_id, 2, copy, "", "cluster-A", 2),
        Beginning(topic, "earlier", {"0": 0}, {"0": 0}, 1),
        Beginning(topic, topic_id, {"0": 0}, {"0": 0}, 2),
        LeaderEpoch(topic, topic_id, 0, 3, 0),
        Gap(topic, 0, 1, 2, GapCause.RETENTION, 1, 2, topic_id),
        Quarantine(topic, 0, 3, "too large", 1, topic_id),
        TopicPause(topic, 1, "me", "why"),
        DeletedTopic(topic, topic_id, copy, 1),
        TopicConfigsSet(copy, {"a": "b"}, 1),
    ]


@pytest.fixture(autouse=True)
def lost(flow, source, with_internal, orders, copied, fenced) -> None:
    """`orders` was copied and is gone from both sides; `other` is copied, and has the same kinds of records."""
    source.add_topic("other")
    with_internal.add_topic("A.other")
    for name in ("orders", "other"):
        at = orders._replace(topic=name)
        for offset in range(3):
            source.append(at, key=b"k", value=b"v", timestamp=offset)
        copied(at, 0, 3)
        records = about(name, f"A.{name}", source.topics[name].topic_id)
        held_up = (TopicPause, DeletedTopic) if name == "other" else ()
        write_ledger(flow, with_internal, [it for it in records if not isinstance(it, held_up)])
    del source.topics["orders"], with_internal.topics["A.orders"]


def known(flow, target, topic: str) -> tuple[bool, ...]:
    """Whether progress, map and ledger know a topic."""
    return (
        any(it.topic == topic for it in read_progress(flow, target)),
        any(it.topic == topic for it in read_packed(flow, target)),
        any(topic.encode() in key for key in target.latest(flow.ledger_topic)),
    )


def test_all_that_is_known_of_a_topic_is_dropped_and_told(flow, clusters, target):
    """Of every life; and nothing of another topic."""
    done = forget.run(flow, clusters, "orders")
    assert {
        "progress": 1,
        "map": 1,
        "incarnation": 2,
        "beginning": 2,
        "leader-epoch": 1,
        "gap": 1,
        "quarantine": 1,
        "topic-pause": 1,
        "deleted-topic": 1,
        "topic-configs-set": 1,
    } == done.dropped
    assert ((False,) * 3, (True,) * 3) == (known(flow, target, "orders"), known(flow, target, "other"))
    assert not [it for it in discover.run(flow, clusters).problems if it.topic == "orders"]


def test_its_name_is_free_again(flow, clusters, source, target):
    """A topic of the same name is one that was never seen."""
    source.add_topic("orders")
    before = {it.code for it in discover.run(flow, clusters).problems if it.topic == "orders"}
    assert ProblemCode.RECREATED in before
    del source.topics["orders"]
    forget.run(flow, clusters, "orders")
    source.add_topic("orders")
    sync_topics.run(flow, clusters)
    found = [it for it in discover.run(flow, clusters).topics if it.topic == "orders"]
    assert [True] == [it.ready for it in found]


def test_a_dry_run_says_the_same_and_changes_nothing(flow, clusters, target):
    """Count by count."""
    promised = forget.run(flow, clusters, "orders", dry_run=True)
    assert (True,) * 3 == known(flow, target, "orders")
    done = forget.run(flow, clusters, "orders")
    assert replace(promised, dry_run=False) == done


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda source, target: source.add_topic("orders"), "A has it"),
        (lambda source, target: target.add_topic("A.orders"), "B has A.orders"),
        (lambda source, target: setattr(source, "_cluster_id", "another"), "A is another cluster"),
        (
            lambda source, target: target.append_state(FlowState(FlowPhase.PAUSED, 1, "me", "brokers move")),
            "the flow is paused by me: brokers move",
        ),
        (
            lambda source, target: target.append_state(FlowState(FlowPhase.PROMOTED, 1, "me", "")),
            "the flow is promoted by me",
        ),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_what_somebody_has_or_may_need_is_not_forgotten(
    flow, clusters, source, target, fenced, change, words, late
):
    """Also where that came between the first look and the fence."""
    target.append_state = lambda record: write_ledger(flow, target, [record])
    if late:
        fenced.append(lambda: change(source, target))
    else:
        change(source, target)
    with pytest.raises(TerminalError, match=words) as refused:
        forget.run(flow, clusters, "orders")
    assert ("forget-refused", (True,) * 3) == (refused.value.code, known(flow, target, "orders"))


@pytest.mark.parametrize("side", ["A", "B"])
def test_a_cluster_that_does_not_tell_is_not_taken_for_one_without_it(flow, clusters, source, target, side):
    """No right to describe a topic is no deletion."""
    cluster, name = (source, "orders") if side == "A" else (target, "A.orders")
    cluster.refuse("describe_topics", name, ClusterRefused("not authorised", code="unauthorised"))
    with pytest.raises(ClusterRefused, match="not authorised"):
        forget.run(flow, clusters, "orders")
    assert (True,) * 3 == known(flow, target, "orders")


def test_a_topic_that_nobody_knows_is_a_typing_error(flow, clusters):
    """Wrong usage."""
    with pytest.raises(UsageError, match="A->B knows nothing of topic odrers"):
        forget.run(flow, clusters, "odrers")


def resumed(flow, target) -> None:
    """Take the pause of `orders` out."""
    ledger.write_ledger(flow, target, (), [read_ledger(flow, target).pauses["orders"]])


def test_nothing_is_forgotten_by_itself(flow, clusters, target):
    """It is said in every cycle, with the command that does it."""
    resumed(flow, target)
    done = sync_topics.run(flow, clusters)
    (problem,) = (it for it in done.problems if it.topic == "orders")
    assert "twinlog topics forget --topic orders" in problem.hint
    assert (True,) * 3 == known(flow, target, "orders")

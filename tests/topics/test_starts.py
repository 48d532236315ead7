"""Where the copy of a topic begins that a flow has never seen, by `twinlog.start`."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.flow.tiers import Start, StartKind, Tier, parse_start
from twinlog.copying.resolve import resolve_now
from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import status
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.topics.starts import start_of

DAY_MS = 86_400_000


@pytest.fixture
def aged(source):
    """Two partitions of `aged`, a record a day, the newest of today: ten in the first, three in the second."""
    source.add_topic("aged", 2)
    now = int(time.time() * 1000)
    for partition, days in ((0, 10), (1, 3)):
        for it in range(days):
            at = now - (days - 1 - it) * DAY_MS
            source.append(TopicPartition("aged", partition), key=None, value=b"x", timestamp=at)
    return "aged"


def starting(flow, text: str):
    return replace(flow, tiers=(Tier(start=parse_start(text)),))


def begun(flow, clusters) -> dict[str, int]:
    sync_topics.run(flow, clusters)
    return dict(read_ledger(flow, clusters.target).beginnings["aged"].offsets)


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        ("earliest", {"0": 0, "1": 0}),
        ("latest", {"0": 10, "1": 3}),
        ("36h", {"0": 8, "1": 1}),
        ("5d12h", {"0": 4, "1": 0}),
        ("2000-01-01T00:00:00Z", {"0": 0, "1": 0}),
        ("2999-01-01", {"0": 10, "1": 3}),
    ],
)
def test_a_copy_begins_where_the_file_says(flow, clusters, aged, start: str, offsets: dict[str, int]) -> None:
    """At the first record of that time or later, in each partition; behind the last if there is none."""
    assert offsets == begun(starting(flow, start), clusters)


def test_records_before_it_are_not_copied_and_are_no_lag(flow, clusters, aged) -> None:
    """A driver behind the fence begins there, and what is left out is waited for by nobody."""
    begins = starting(flow, "36h")
    before = status.run(begins, clusters).lag_records
    sync_topics.run(begins, clusters)
    topics = FlowSnapshot(begins, clusters).discovery.topics
    behind_fence: Any = SimpleNamespace(flow=begins, progress={})
    resolved = resolve_now(behind_fence, clusters, topics, {}, {})
    assert ([8, 1], ()) == ([it.start for it in resolved.ranges], resolved.stopped)
    assert (4, 4) == (before, status.run(begins, clusters).lag_records)


def test_a_start_is_for_what_was_never_seen(flow, clusters, aged) -> None:
    """A topic that is copied stays as it is when the setting comes later."""
    sync_topics.run(flow, clusters)
    assert {"0": 0, "1": 0} == begun(starting(flow, "latest"), clusters)


def test_it_is_noted_once(flow, clusters, aged, source) -> None:
    """Days go by, and records are written: the beginning stays."""
    begins = starting(flow, "36h")
    first = begun(begins, clusters)
    source.append(TopicPartition("aged", 1), key=None, value=b"x", timestamp=int(time.time() * 1000))
    assert first == begun(replace(flow, tiers=(Tier(start=parse_start("latest")),)), clusters)


@pytest.mark.parametrize(("noted", "decides"), [("this", False), ("another", True)])
def test_a_beginning_is_that_of_one_topic_alone(flow, noted: str, decides: bool) -> None:
    """A topic that was recreated before its copy was made begins anew."""
    topic: Any = SimpleNamespace(topic="aged", topic_id="this")
    ledger: Any = SimpleNamespace(beginnings={"aged": SimpleNamespace(topic_id=noted)}, incarnations={})
    assert decides == (start_of(starting(flow, "latest"), topic, ledger, ()) is not None)


def test_topics_of_a_tier_have_a_start_of_their_own(flow, clusters, aged, source) -> None:
    """The others begin as before."""
    source.add_topic("orders")
    source.append(TopicPartition("orders", 0), key=None, value=b"x")
    tier = Tier("old", NameFilter(("aged",)), start=parse_start("latest"))
    begins = replace(flow, tiers=(Tier(), tier))
    assert {"0": 10, "1": 3} == begun(begins, clusters)
    assert {"0": 0} == dict(read_ledger(flow, clusters.target).beginnings["orders"].offsets)


def test_while_a_leader_does_not_tell_nothing_is_noted_and_nothing_copied(
    flow, clusters, aged, source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offset of a partition is never guessed: the topic waits for the next cycle."""
    begins, offsets_at = starting(flow, "36h"), source.offsets_at
    refused = {TopicPartition("aged", 1): ClusterRefused("A does not tell")}
    monkeypatch.setattr(
        source, "offsets_at", lambda them, at: replace(offsets_at(list(them)[:1], at), refused=refused)
    )
    sync_topics.run(begins, clusters)
    assert "aged" not in read_ledger(flow, clusters.target).incarnations
    topics = FlowSnapshot(begins, clusters).discovery.topics
    behind_fence: Any = SimpleNamespace(flow=begins, progress={})
    resolved = resolve_now(behind_fence, clusters, topics, {}, {})
    assert ((), ["start-unknown"]) == (resolved.ranges, [it.code for it in resolved.stopped])
    monkeypatch.undo()
    assert {"0": 8, "1": 1} == begun(begins, clusters)


def test_a_topic_with_progress_goes_on_where_it_is(flow, clusters, aged, with_internal, copied) -> None:
    """MM2 copied it before: the start moves nothing."""
    with_internal.add_topic("A.aged", 2)
    copied(TopicPartition("aged", 0), 0, 3)
    topics = FlowSnapshot(starting(flow, "latest"), clusters).discovery.topics
    assert [None, None] == [it.begins for it in topics[0].partitions]


@given(st.integers(1, 1_000), st.sampled_from("smhd"))
def test_a_time_back_is_counted_from_now(count: int, unit: str) -> None:
    """In seconds, minutes, hours or days."""
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86_400}[unit] * count
    assert Start(StartKind.LAST, seconds * 1000) == parse_start(f"{count}{unit}")
    assert 5_000_000_000 - seconds * 1000 == parse_start(f"{count}{unit}").moment_ms(5_000_000_000)


@pytest.mark.parametrize("text", ["", "newest", "-7d", "7", "2026-13-01", "7d ago"])
def test_anything_else_is_refused(text: str) -> None:
    """With one line that names the forms (tests of the configuration file)."""
    with pytest.raises(ValueError, match=r"^$"):
        parse_start(text)


@pytest.mark.parametrize(
    ("start", "begun_at"), [("earliest", [0, 0]), ("latest", [10, 3]), ("36h", [8, 1]), (None, [10, 3])]
)
def test_a_beginning_stays_although_the_copy_cannot_be_made_yet(
    flow, clusters, source, target, aged, start: str | None, begun_at: list[int]
) -> None:
    """What is written between the first look at a topic and its copy is lag, and is copied (None: MM2's `latest`)."""
    late = replace(flow, copy=replace(flow.copy, start_from_latest=True))
    begins = starting(flow, start) if start else late
    target.refuse("create_topics", "A.aged", ClusterRefused("its name collides"))
    first = sync_topics.run(begins, clusters)
    assert ["A.aged"] == [it.name for it in first.refused]
    for _ in range(50):
        source.append(TopicPartition("aged", 0), key=None, value=b"later", timestamp=int(time.time() * 1000))
    assert 60 + 3 - sum(begun_at) == status.run(begins, clusters).lag_records
    target.allow("create_topics", "A.aged")
    sync_topics.run(begins, clusters)
    topics = FlowSnapshot(begins, clusters).discovery.topics
    behind_fence: Any = SimpleNamespace(flow=begins, progress={})
    resolved = resolve_now(behind_fence, clusters, topics, {}, {})
    assert [begun_at[0]] == [it.start for it in resolved.ranges if it.partition == 0]

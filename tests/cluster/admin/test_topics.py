"""Building topic requests and reading their answers, without brokers."""

import string
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.admin import configs, topics
from twinlog.cluster.session import REQUEST_RECORDS, requests
from twinlog.cluster.values import Answers, NewTopic, PartitionDescription, TopicDescription
from twinlog.errors import ClusterRefused

COUNTS = st.lists(st.integers(1, 12_000), max_size=30)


class Willing:
    """A session whose controller does everything, and notes how many records it was asked for at once."""

    alias = "B"

    def __init__(self) -> None:
        self.asked: list[dict[str, int]] = []

    def create_partitions(self, wanted, **_):
        self.asked.append({it.topic: it.new_total_count for it in wanted})
        return self.asked[-1]

    def create_topics(self, wanted, **_):
        self.asked.append({it.topic: 1 + it.num_partitions + len(it.config) for it in wanted})
        return self.asked[-1]

    def incremental_alter_configs(self, wanted, **_):
        self.asked.append({it.name: len(it.incremental_configs) for it in wanted})
        return dict.fromkeys(wanted)

    def answers(self, send, _, *, changes):
        assert changes
        return Answers(dict.fromkeys(send(self)))


class Refusing:
    """A session of a cluster that holds two replicas of a topic and no more."""

    alias = "B"

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def create_topics(self, wanted, **_):
        self.asked += [(it.topic, it.replication_factor) for it in wanted]
        return {it.topic: it.replication_factor for it in wanted}

    def answers(self, send, _, *, changes):
        assert changes
        futures = send(self)
        refused = ClusterRefused("too many", kafka_error="INVALID_REPLICATION_FACTOR")
        return Answers(
            {name: None for name, factor in futures.items() if factor <= 2},
            {name: refused for name, factor in futures.items() if factor > 2},
        )


def test_only_what_the_cluster_refuses_gets_fewer_replicas(monkeypatch):
    """Brokers that are down for the moment can hold replicas: how many there are, the cluster says."""
    monkeypatch.setattr(topics, "wait_until_shown", lambda _, shown: Answers(dict.fromkeys(shown)))
    session = Refusing()
    wanted = [NewTopic("a", 1, 2, {}, 1), NewTopic("b", 1, 3, {}, 2), NewTopic("c", 1, 3)]
    answers = topics.create_topics(session, wanted)
    assert [("a", 2), ("b", 3), ("c", 3), ("b", 2)] == session.asked
    assert ({"a", "b"}, {"c"}) == (answers.found.keys(), answers.refused.keys())


def test_each_turn_of_a_large_creation_is_waited_for(monkeypatch):
    """A broker shows nothing of a request before it has made all of it: in turns, something comes all the time."""
    session, waits = Willing(), []

    def shown(_, counts):
        waits.append((len(session.asked), sum(counts.values())))
        return Answers(dict.fromkeys(counts))

    monkeypatch.setattr(topics, "wait_until_shown", shown)
    wanted = [NewTopic(f"t{number}", 400, 1) for number in range(5)]
    assert {it.name for it in wanted} == topics.create_topics(session, wanted).require().keys()
    assert [(1, 800), (2, 800), (3, 400)] == waits


@given(COUNTS)
def test_growth_is_asked_for_in_requests_that_a_controller_takes(counts):
    """As creations are: nothing is lost, and only a single topic goes over the limit."""
    session, wanted = Willing(), {f"t{number}": count for number, count in enumerate(counts)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "wait_until_shown", lambda _, shown: Answers(dict.fromkeys(shown)))
        assert wanted.keys() == topics.create_partitions(session, wanted).require().keys()
    assert wanted == {name: count for request in session.asked for name, count in request.items()}
    assert all(len(it) == 1 or sum(it.values()) <= REQUEST_RECORDS for it in session.asked)


@given(st.lists(st.tuples(st.integers(1, 12_000), st.integers(0, 40)), max_size=30))
def test_creations_are_counted_with_their_configs(sizes):
    """A topic, each partition and each config are records; order stays."""
    wanted = [
        NewTopic(f"t{number}", partitions, 1, {str(key): "" for key in range(settings)})
        for number, (partitions, settings) in enumerate(sizes)
    ]
    session = Willing()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "wait_until_shown", lambda _, shown: Answers(dict.fromkeys(shown)))
        topics.create_topics(session, wanted).require()
    assert [it.name for it in wanted] == [name for request in session.asked for name in request]
    assert all(len(it) == 1 or sum(it.values()) <= REQUEST_RECORDS for it in session.asked)


@given(st.lists(st.integers(0, 3_000), max_size=12))
def test_config_changes_are_asked_for_in_requests_that_a_controller_takes(counts):
    """Nothing is lost, and a topic's changes stay together."""
    changes = {f"t{number}": {str(key): "" for key in range(count)} for number, count in enumerate(counts)}
    session = Willing()
    answers = configs.alter_topic_configs(session, changes)
    assert {(name, key) for name, keys in changes.items() for key in keys} == set(answers.require())
    assert {name: len(keys) for name, keys in changes.items() if keys} == {
        name: count for request in session.asked for name, count in request.items()
    }
    assert all(sum(it.values()) <= REQUEST_RECORDS for it in session.asked)


@given(st.lists(st.integers(0, 12_000), max_size=30))
def test_requests_keep_everything_in_order(sizes):
    """Cutting loses nothing and moves nothing; only what is too large by itself goes over the limit, alone."""
    cut = list(requests(sizes, lambda it: it))
    assert sizes == [it for request in cut for it in request]
    assert all(request and (len(request) == 1 or sum(request) <= REQUEST_RECORDS) for request in cut)


@given(st.text(string.ascii_letters + string.digits + "+/", min_size=22, max_size=22))
def test_topic_ids_are_spelled_as_kafka_spells_them(text):
    """`-` and `_` in place of `+` and `/`, and no padding."""
    spelled = topics.topic_id(text + "==")
    assert text == spelled.replace("-", "+").replace("_", "/")
    assert not set("+/=") & set(spelled)


def described(name: str, *leaders: int) -> TopicDescription:
    return TopicDescription(
        name, "id", tuple(PartitionDescription(i, it, (0,)) for i, it in enumerate(leaders))
    )


def wait(monkeypatch, counts, *answers):
    """Wait with a clock that moves 10 s a look, over the given answers to describe."""
    seen = iter(answers)
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr(topics, "describe_topics", lambda *_: next(seen))
    return topics.wait_until_shown(
        SimpleNamespace(alias="B"), counts, clock=lambda: next(ticks), sleep=lambda _: None
    )


def test_a_topic_is_shown_when_all_its_partitions_have_leaders(monkeypatch):
    """Absent, then leaderless, then too few partitions: each is waited for."""
    result = wait(
        monkeypatch,
        {"t": 2},
        Answers({}, {"t": ClusterRefused("no", code="unknown-topic")}),
        Answers({"t": described("t", 1, -1)}),
        Answers({"t": described("t", 1)}),
        Answers({"t": described("t", 1, 1)}),
    )
    assert Answers({"t": None}) == result


def test_a_topic_that_never_shows_is_refused_in_the_end(monkeypatch):
    """The wait is bounded, and one late topic does not spoil the others."""
    late = [Answers({"a": described("a", 1)}, {"b": ClusterRefused("no", code="unknown-topic")})]
    result = wait(monkeypatch, {"a": 1, "b": 1}, *late * 9)
    assert {"a": None} == result.found
    assert "not-shown" == result.refused["b"].code


def test_the_wait_goes_on_as_long_as_leaders_come(monkeypatch):
    """A broker makes some hundred partitions a second: 10,000 take longer than one may be silent."""
    coming = [Answers({"t": described("t", *[1] * made, *[-1] * (9 - made))}) for made in range(10)]
    assert Answers({"t": None}) == wait(monkeypatch, {"t": 9}, *coming)


def test_who_may_not_look_does_not_wait(monkeypatch):
    """A topic that may be created but not described is said at once."""
    refused = ClusterRefused("not allowed", code="unauthorised")
    result = wait(monkeypatch, {"a": 1}, Answers({}, {"a": refused}))
    assert Answers({}, {"a": refused}) == result

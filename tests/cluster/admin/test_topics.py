"""Building topic requests and reading their answers, without brokers."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.admin import configs, topics
from twinlog.cluster.portions import REQUEST_RECORDS, requests
from twinlog.cluster.values import Answers, NewTopic, PartitionDescription, TopicDescription
from twinlog.errors import ClusterRefused

COUNTS = st.lists(st.integers(1, 12_000), max_size=30)


INVALID_REPLICATION_FACTOR = 38


class Willing:
    """Brokers whose controller does everything, and notes how many records it was asked for at once."""

    settings = SimpleNamespace(alias="B")

    def __init__(self) -> None:
        self.asked: list[dict[str, int]] = []

    def ask_controller(self, api, _results, *, topics=(), resources=(), **_):
        self.asked.append(
            {it.name: getattr(it, "count", 0) or 1 + it.num_partitions + len(it.configs) for it in topics}
            | {it.resource_name: len(it.configs) for it in resources}
        )
        return [SimpleNamespace(name=it, resource_name=it, error_code=0) for it in self.asked[-1]]


class Refusing(Willing):
    """Brokers of a cluster that holds two replicas of a topic and no more."""

    def ask_controller(self, api, _results, *, topics, **_):
        self.asked += [(it.name, it.replication_factor) for it in topics]
        codes = {it.name: INVALID_REPLICATION_FACTOR if it.replication_factor > 2 else 0 for it in topics}
        return [SimpleNamespace(name=name, error_code=code) for name, code in codes.items()]


def test_only_what_the_cluster_refuses_gets_fewer_replicas(monkeypatch):
    """Brokers that are down for the moment can hold replicas: how many there are, the cluster says."""
    monkeypatch.setattr(topics, "wait_until_shown", lambda _, shown: Answers(dict.fromkeys(shown)))
    brokers = Refusing()
    wanted = [NewTopic("a", 1, 2, {}, 1), NewTopic("b", 1, 3, {}, 2), NewTopic("c", 1, 3)]
    answers = topics.create_topics(brokers, wanted)
    assert [("a", 2), ("b", 3), ("c", 3), ("b", 2)] == brokers.asked
    assert ({"a", "b"}, {"c"}) == (answers.found.keys(), answers.refused.keys())


def test_each_turn_of_a_large_creation_is_waited_for(monkeypatch):
    """A broker shows nothing of a request before it has made all of it: in turns, something comes all the time."""
    brokers, waits = Willing(), []

    def shown(_, counts):
        waits.append((len(brokers.asked), sum(counts.values())))
        return Answers(dict.fromkeys(counts))

    monkeypatch.setattr(topics, "wait_until_shown", shown)
    wanted = [NewTopic(f"t{number}", 400, 1) for number in range(5)]
    assert {it.name for it in wanted} == topics.create_topics(brokers, wanted).require().keys()
    assert [(1, 800), (2, 800), (3, 400)] == waits


@given(COUNTS)
def test_growth_is_asked_for_in_requests_that_a_controller_takes(counts):
    """As creations are: nothing is lost, and only a single topic goes over the limit."""
    brokers, wanted = Willing(), {f"t{number}": count for number, count in enumerate(counts)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "wait_until_shown", lambda _, shown: Answers(dict.fromkeys(shown)))
        assert wanted.keys() == topics.create_partitions(brokers, wanted).require().keys()
    assert wanted == {name: count for request in brokers.asked for name, count in request.items()}
    assert all(len(it) == 1 or sum(it.values()) <= REQUEST_RECORDS for it in brokers.asked)


@given(st.lists(st.tuples(st.integers(1, 12_000), st.integers(0, 40)), max_size=30))
def test_creations_are_counted_with_their_configs(sizes):
    """A topic, each partition and each config are records; order stays."""
    wanted = [
        NewTopic(f"t{number}", partitions, 1, {str(key): "" for key in range(settings)})
        for number, (partitions, settings) in enumerate(sizes)
    ]
    brokers = Willing()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "wait_until_shown", lambda _, shown: Answers(dict.fromkeys(shown)))
        topics.create_topics(brokers, wanted).require()
    assert [it.name for it in wanted] == [name for request in brokers.asked for name in request]
    assert all(len(it) == 1 or sum(it.values()) <= REQUEST_RECORDS for it in brokers.asked)


@given(st.lists(st.integers(0, 3_000), max_size=12))
def test_config_changes_are_asked_for_in_requests_that_a_controller_takes(counts):
    """Nothing is lost, and a topic's changes stay together."""
    changes = {f"t{number}": {str(key): "" for key in range(count)} for number, count in enumerate(counts)}
    brokers = Willing()
    answers = configs.alter_topic_configs(brokers, changes)
    assert {(name, key) for name, keys in changes.items() for key in keys} == set(answers.require())
    assert {name: len(keys) for name, keys in changes.items() if keys} == {
        name: count for request in brokers.asked for name, count in request.items()
    }
    assert all(sum(it.values()) <= REQUEST_RECORDS for it in brokers.asked)


@given(st.lists(st.integers(0, 12_000), max_size=30))
def test_requests_keep_everything_in_order(sizes):
    """Cutting loses nothing and moves nothing; only what is too large by itself goes over the limit, alone."""
    cut = list(requests(sizes, lambda it: it))
    assert sizes == [it for request in cut for it in request]
    assert all(request and (len(request) == 1 or sum(request) <= REQUEST_RECORDS) for request in cut)


def described(name: str, *leaders: int) -> TopicDescription:
    return TopicDescription(
        name, "id", tuple(PartitionDescription(i, it, (0,)) for i, it in enumerate(leaders))
    )


def wait(monkeypatch, counts, *answers):
    """Wait with a clock that moves 10 s a look, over the given answers to describe."""
    seen = iter(answers)
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr(topics, "describe_topics", lambda *_: next(seen))
    return topics.wait_until_shown(Willing(), counts, clock=lambda: next(ticks), sleep=lambda _: None)


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

"""Who coordinates which group: one that nobody coordinates does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.cluster.admin import group_offsets
from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition, OffsetChange, list_groups
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterUnreachable, TerminalError, TransientError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import brokers
from twinlog.protocol.brokers import Brokers, TopicMetadata
from twinlog.protocol.errors import UNKNOWN_TOPIC, Code
from twinlog.protocol.socket.connection import Connection


class Coordinators(Brokers):
    """Names a node, or an error code below zero, for each group; nodes in `dead` do not answer."""

    def __init__(self, named: Mapping[str, int], dead: frozenset[int] = frozenset()) -> None:
        super().__init__(ConnectionSettings("A", (("nowhere", 1),)))
        self._named = named
        self._dead = dead
        self.tried: list[int] = []

    def _ask_coordinators(self, groups: list[str], kind: int) -> list[tuple[str, Any]]:
        return [
            (name, SimpleNamespace(error_code=max(0, -it), node_id=it, host="h", port=it))
            for name in groups
            for it in (self._named[name],)
        ]

    def node(self, node: int, purpose: str) -> Connection:
        self.tried.append(node)
        if node in self._dead:
            raise ClusterUnreachable("gone", cluster="A")
        return cast(Connection, f"{node} to {purpose}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits 20 s here."""
    monkeypatch.setattr(Brokers._until, "__defaults__", (0.05,))


class TestLeader:
    """The leader of a topic that a broker does not know."""

    def test_a_broker_that_lags_is_asked_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It has just started, or the topic was just created."""
        monkeypatch.setattr(brokers, "_PATIENCE_SECONDS", 5.0)
        unknown = TopicMetadata("t", Code.UNKNOWN_TOPIC_OR_PARTITION, {})
        answers, here = [unknown, unknown, TopicMetadata("t", 0, {0: 7})], Coordinators({})
        monkeypatch.setattr(here, "metadata", lambda _: {"t": answers.pop(0)})
        assert 7 == here.leader("t", 0)

    def test_a_topic_that_stays_unknown_is_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For good, so that its range ends."""
        monkeypatch.setattr(brokers, "LAG_SECONDS", 0.0)
        here = Coordinators({})
        unknown = {"t": TopicMetadata("t", Code.UNKNOWN_TOPIC_OR_PARTITION, {})}
        monkeypatch.setattr(here, "metadata", lambda _: unknown)
        with pytest.raises(TerminalError) as caught:
            here.leader("t", 0)
        assert UNKNOWN_TOPIC == caught.value.code


def test_a_group_without_coordinator_does_not_stop_the_others() -> None:
    """It has its error code when time is up; the others their connections."""
    here = Coordinators({"idle": 1, "lost": -Code.COORDINATOR_NOT_AVAILABLE, "busy": 2})
    assert (
        {"idle": "1 to coordinate", "busy": "2 to coordinate"},
        {"lost": Code.COORDINATOR_NOT_AVAILABLE},
    ) == here.group_coordinators(["idle", "lost", "busy"])


def test_a_dead_coordinator_that_is_still_named_is_one_that_is_not_there() -> None:
    """Connecting to it costs one attempt a question, however many groups it had."""
    here = Coordinators({"a": 1, "b": 2, "c": 2}, dead=frozenset({2}))
    found, failed = here.group_coordinators(["a", "b", "c"])
    gone = Code.COORDINATOR_NOT_AVAILABLE
    assert ({"a": "1 to coordinate"}, {"b": gone, "c": gone}) == (found, failed)
    assert here.tried[:2] == [1, 2]
    assert set(here.tried[2:]) <= {2}


def test_what_waiting_does_not_change_is_not_waited_for() -> None:
    """A refusal comes back at once."""
    code = Code.GROUP_AUTHORIZATION_FAILED
    assert ({}, {"secret": code}) == Coordinators({"secret": -code}).group_coordinators(["secret"])


class Named(Brokers):
    """Names other brokers at each question for metadata; each answers in which round it was asked."""

    def __init__(self, *rounds: Sequence[int], dead: int) -> None:
        super().__init__(ConnectionSettings("A", (("nowhere", 1),)))
        self._rounds, self._dead = list(rounds), dead
        self.asked = 0

    def _ask_metadata(self, topics: list[Any] | None) -> Any:
        self.asked += 1
        named = self._rounds.pop(0) if len(self._rounds) > 1 else self._rounds[0]
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=it) for it in named])

    def node(self, node: int, purpose: str) -> Connection:
        if node == self._dead:
            raise ClusterUnreachable(f"{node} is gone", cluster="A")
        return cast(Connection, (node, self.asked))


class TestAllBrokers:
    """What all brokers tell together."""

    def test_all_are_asked_again_when_one_was_lost(self) -> None:
        """What it coordinated has come to another, whose older answer lacks it."""
        here = Named([1, 2, 3], [1, 2, 3], [1, 3], dead=2)
        assert [(1, 3), (3, 3)] == here.of_all(lambda it: it)

    def test_the_answers_of_some_are_not_those_of_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that stays named and silent is told, and no answer is made of the others."""
        monkeypatch.setattr(brokers, "_SESSION_SECONDS", 0.1)
        with pytest.raises(ClusterUnreachable, match="3 is gone"):
            Named([1, 2, 3], dead=3).of_all(lambda it: it)

    def test_groups_that_nobody_coordinates_are_not_no_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A partition of Kafka's topic of groups has no leader, and no broker lists what lies in it."""
        here = Named([1], dead=0)
        monkeypatch.setattr(here, "of_all", lambda _: [])
        for leaders, told in (({0: 1, 1: 1}, ()), ({}, ()), ({0: 1, 1: -1}, None)):
            topic = TopicMetadata("__consumer_offsets", 0, leaders)
            monkeypatch.setattr(here, "metadata", lambda _, it=topic: {it.name: it})
            if told is not None:
                assert told == list_groups(here)
                continue
            with pytest.raises(TransientError, match="not all groups of A can be listed"):
                list_groups(here)


class TestLogin:
    """A login is renewed before each question, of ACLs and quotas too."""

    def test_the_kept_connection_logs_in_again(self) -> None:
        """A ticket or token that ends within a run ends no question."""
        here, renewed = Brokers(ConnectionSettings("A", ())), []
        kept = SimpleNamespace(ended=False, keep_login=lambda: renewed.append("once"))
        here._bootstrap = cast(Connection, kept)
        assert kept is here.any_broker()
        assert ["once"] == renewed

    def test_a_connection_that_ends_with_its_login_is_replaced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The next address is asked."""

        def lost() -> None:
            raise ClusterUnreachable("it closed", cluster="A")

        here = Coordinators({})
        here._bootstrap = cast(Connection, SimpleNamespace(ended=False, keep_login=lost, close=lambda: None))
        monkeypatch.setattr(brokers, "Connection", lambda _, host, port: f"{host}:{port}")
        assert "nowhere:1" == here.any_broker()


def test_one_silent_coordinator_holds_up_no_other_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups are refused by name, as unknown; those of others are answered."""
    monkeypatch.setattr(group_offsets, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(group_offsets, "PAUSE_SECONDS", 0.0)
    here, done = Coordinators({"a": 1, "b": 2, "c": 1}), []

    def work(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        if "2 to coordinate" == connection:
            raise ClusterUnreachable("it says nothing", cluster="A")
        done.extend(names)
        return {}

    monkeypatch.setattr(here, "drop", lambda _: None)
    refused = group_offsets.by_coordinator(here, ["b", "a", "c"], "read", work)
    assert (["a", "c"], ["b"]) == (done, list(refused))
    assert isinstance(refused["b"], TransientError)


def test_a_position_whose_answer_was_lost_is_not_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try finds the new position there; one that is neither the old nor the new is left alone."""
    monkeypatch.setattr(group_offsets, "PAUSE_SECONDS", 0.0)
    here, at, answers = (
        Coordinators({"ours": 1, "moved": 2}),
        TopicPartition("t", 0),
        ["lost", "given", "given"],
    )
    stand = {"ours": 5, "moved": 6}
    changes = {group: {at: OffsetChange(9, 5)} for group in stand}
    monkeypatch.setattr(here, "drop", lambda _: None)

    def read(_: Connection, names: Sequence[str]) -> list[group_offsets.Standing]:
        return [(name, 0, {at: CommittedOffset(stand[name])}, ()) for name in names]

    def commit(_: Connection, wanted: group_offsets.Changes) -> Iterator[tuple[GroupPartition, int]]:
        stand.update((group, 9) for group in wanted)
        if wanted and answers.pop(0) == "lost":
            raise ClusterUnreachable("it says nothing", cluster="A")
        yield from ((GroupPartition(group, *at), 0) for group in wanted)

    done = group_offsets.replace_positions(here, changes, "commit offsets of", read, commit)
    assert ([GroupPartition("ours", *at)], [GroupPartition("moved", *at)]) == ([*done.found], [*done.refused])
    assert {"ours": 9, "moved": 6} == stand


def test_an_address_that_gave_no_answer_is_asked_last_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lane finds its cluster anew, and a frozen broker held up each by ten seconds."""
    asked = []

    def connected(_: ConnectionSettings, host: str, port: int) -> str:
        asked.append(host)
        if host == "frozen":
            raise ClusterUnreachable("it says nothing", cluster="A")
        return host

    monkeypatch.setattr(brokers, "_LOST", {})
    monkeypatch.setattr(brokers, "Connection", connected)
    settings = ConnectionSettings("A", (("frozen", 1), ("well", 2)))
    assert ["well", "well"] == [Brokers(settings).any_broker() for _ in range(2)]
    assert ["frozen", "well", "well"] == asked

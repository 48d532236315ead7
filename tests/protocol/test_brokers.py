"""Who coordinates which group: one that nobody coordinates does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterUnreachable, TerminalError
from twinlog.protocol import brokers
from twinlog.protocol.brokers import REST_SECONDS, Brokers, KeptBrokers, TopicMetadata
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


class TestKeptBrokers:
    """Connections outlive a question."""

    def test_the_next_question_has_the_same_connections(self) -> None:
        """Two at once have different ones, and after an error they are not used again."""
        kept = KeptBrokers(ConnectionSettings("A", ()))
        with kept.lent() as first, kept.lent() as second:
            assert first is not second
        with kept.lent() as again:
            assert again is first
        with pytest.raises(ClusterUnreachable), kept.lent() as lost:
            raise ClusterUnreachable("gone", cluster="A")
        with kept.lent() as other:
            assert lost is first
            assert other is second

    def test_what_rested_for_long_is_not_used_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A firewall may have forgotten it."""
        kept = KeptBrokers(ConnectionSettings("A", ()))
        with kept.lent() as first:
            pass
        later = time.monotonic() + REST_SECONDS
        monkeypatch.setattr(brokers, "time", SimpleNamespace(monotonic=lambda: later))
        with kept.lent() as other:
            assert other is not first

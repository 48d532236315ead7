"""Asking for offsets while leaders move, without brokers."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from twinlog.cluster import offsets
from twinlog.cluster.session import Session
from twinlog.kafka_types import TopicPartition


class Admin:
    """Answers list_offsets with what is due: an offset, or an error code."""

    def __init__(self, *rounds: dict[int, int | str]) -> None:
        self.rounds = list(rounds)

    def list_offsets(self, asked, **_):
        due = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        return {it: self.future(due[it.partition]) for it in asked}

    def future(self, outcome: int | str) -> Future:
        future: Future = Future()
        if isinstance(outcome, int):
            future.set_result(SimpleNamespace(offset=outcome))
        else:
            future.set_exception(KafkaException(KafkaError(getattr(KafkaError, outcome))))
        return future


def ask(monkeypatch, *rounds):
    monkeypatch.setattr(offsets, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(offsets, "SETTLE_POLL_SECONDS", 0.02)
    session = Session("A", {"bootstrap.servers": "127.0.0.1:1"})
    session.admin = Admin(*rounds)
    return offsets.offsets_at(session, [TopicPartition("t", number) for number in rounds[0]], 5)


def test_a_partition_whose_leader_moves_is_asked_again(monkeypatch):
    """A new topic's partitions get their leaders one by one; only those are asked again."""
    answers = ask(monkeypatch, {0: 7, 1: "NOT_LEADER_FOR_PARTITION"}, {1: "LEADER_NOT_AVAILABLE"}, {1: -1})
    assert ({("t", 0): 7, ("t", 1): None}, {}) == (answers.found, answers.refused)


def test_asking_again_has_an_end(monkeypatch):
    """A partition that stays without leader is refused, the others are found."""
    answers = ask(monkeypatch, {0: 7, 1: "NOT_LEADER_FOR_PARTITION"}, {1: "NOT_LEADER_FOR_PARTITION"})
    assert ({("t", 0): 7}, {("t", 1)}) == (answers.found, set(answers.refused))


@pytest.mark.parametrize("code", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PART"])
def test_a_final_no_is_not_asked_again(monkeypatch, code):
    """Permissions and deleted topics do not settle."""
    answers = ask(monkeypatch, {0: code}, {0: 7})
    assert {("t", 0)} == set(answers.refused)

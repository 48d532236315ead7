"""Asking for offsets while leaders move, without brokers."""

import time
from types import SimpleNamespace

import pytest

from twinlog.cluster import offsets
from twinlog.errors import ClusterUnreachable
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.brokers import TopicMetadata
from twinlog.protocol.errors import Code

GONE = "GONE"
Outcome = int | str
"""An offset, the name of an error code, or GONE: the leader does not answer."""


class Leaders:
    """Answer ListOffsets, each partition by a leader of its own, with one outcome after the other; the last stays.

    Partition 9 has no leader, and there is none above it.
    """

    settings = SimpleNamespace(alias="A")

    def __init__(self, outcomes: dict[int, list[Outcome]]) -> None:
        self.outcomes = outcomes
        self.asked = 0

    def known_leader(self, _topic: str, partition: int) -> int:
        return partition if partition < 9 else -1

    def metadata(self, names):
        return {name: TopicMetadata(name, 0, {9: -1}) for name in names}

    def forget_leader(self, *_):
        pass

    def node(self, number: int, _purpose: str):
        return SimpleNamespace(call=lambda *_, **__: self.answer(number))

    def answer(self, number: int):
        self.asked += 1
        due = self.outcomes[number]
        outcome = due.pop(0) if len(due) > 1 else due[0]
        if outcome == GONE:
            raise ClusterUnreachable("gone")
        code, offset = (0, outcome) if isinstance(outcome, int) else (Code[outcome], -1)
        partition = SimpleNamespace(partition_index=number, error_code=code, offset=offset)
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[partition])])


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(offsets, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(offsets, "SETTLE_POLL_SECONDS", 0.02)


def ask(outcomes: dict[int, list[Outcome]]):
    return offsets.offsets_at(Leaders(outcomes), [TopicPartition("t", number) for number in outcomes], 5)


def test_a_partition_whose_leader_moves_is_asked_again():
    """A new topic's partitions get their leaders one by one; only those are asked again."""
    answers = ask({0: [7], 1: ["NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", -1]})
    assert ({("t", 0): 7, ("t", 1): None}, {}) == (answers.found, answers.refused)


def test_asking_again_has_an_end():
    """A partition that stays without leader is refused, the others are found."""
    answers = ask({0: [7], 1: ["NOT_LEADER_OR_FOLLOWER"]})
    assert ({("t", 0): 7}, {("t", 1)}) == (answers.found, set(answers.refused))


@pytest.mark.parametrize("code", ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_TOPIC_OR_PARTITION"])
def test_a_final_no_is_not_asked_again(code):
    """Permissions and deleted topics do not settle."""
    assert {("t", 0)} == set(ask({0: [code, 7]}).refused)


def test_a_leader_that_is_gone_costs_its_partitions_alone():
    """A new one may come; the others are found."""
    answers = ask({0: [7], 1: [GONE, 5], 2: [GONE]})
    assert {("t", 0): 7, ("t", 1): 5} == answers.found
    assert [ClusterUnreachable] == [type(it) for it in answers.refused.values()]


def test_no_leader_and_no_partition_are_two_answers():
    """The one may be elected, the other one does not exist."""
    none, absent = TopicPartition("t", 9), TopicPartition("t", 10)
    refused = offsets.offsets_at(Leaders({}), [none, absent], 5).refused
    assert ("LEADER_NOT_AVAILABLE", "unknown-topic") == (
        refused[none].data["kafka_error"],
        refused[absent].code,
    )


def test_a_new_leader_is_asked_however_long_the_old_one_was_silent():
    """A frozen broker takes longer to be lost than there is time to settle."""

    class Frozen(Leaders):
        def answer(self, number: int):
            if not self.asked:
                time.sleep(2 * offsets.SETTLE_SECONDS)
            return super().answer(number)

    place = TopicPartition("t", 0)
    assert {place: 5} == offsets.offsets_at(Frozen({0: [GONE, 5]}), [place], 5).found

"""Where leader epochs end: what a log says of them, and who is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from batches import Rec, encode
from twinlog.batches.header import BatchHeader
from twinlog.config.security.connection import ConnectionSettings
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers, TopicMetadata
from twinlog.protocol.errors import Code
from twinlog.protocol.leader_epochs import EpochEnd, ReadUpTo, diverged_at, epoch_ends
from twinlog.protocol.socket.connection import Connection


class Leaders(Brokers):
    """Partitions of topic `t` by the node that leads them, with the same log: its epochs, its end and its batches."""

    def __init__(
        self,
        leaders: Mapping[int, int],
        epochs: Sequence[tuple[int, int]] = ((0, 0),),
        log: Sequence[bytes] = (),
    ) -> None:
        super().__init__(ConnectionSettings("A", ()))
        self._of_t = leaders
        self._epochs = epochs
        self._log = log
        self.did: list[str] = []
        self.refuses_to_be_read = False
        self.offers = 4

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        self.did.append("look up")
        self._leaders.update({("t", partition): leader for partition, leader in self._of_t.items()})
        return {name: TopicMetadata(name, 0, self._of_t) for name in topics}

    def node(self, node: int, purpose: str) -> Connection:
        def keep_login() -> None:
            self.did.append("log in")

        def call(api: Any, *, topics: Iterable[Any], **_: Any) -> Any:
            if api is kafka_python.FETCH:
                ((wanted,),) = (it.partitions for it in topics)
                return SimpleNamespace(responses=[SimpleNamespace(partitions=[self._fetched(wanted)])])
            self.did.append(f"ask {node}")
            return SimpleNamespace(topics=[self._answer(it) for it in topics])

        return cast(
            Connection, SimpleNamespace(call=call, keep_login=keep_login, offers=lambda _: self.offers)
        )

    def _answer(self, asked: Any) -> Any:
        """As LeaderEpochFileCache.endOffsetFor."""
        ends = []
        for it in asked.partitions:
            older = [epoch for epoch, _ in self._epochs if epoch <= it.leader_epoch]
            newer = [start for epoch, start in self._epochs if epoch > it.leader_epoch]
            epoch, end = max(older, default=it.leader_epoch), min(newer, default=-1)
            if not newer and epoch == it.leader_epoch:
                end = BatchHeader.read(self._log[-1]).next_offset if self._log else 0
            elif not newer:
                epoch = -1
            ends.append(
                SimpleNamespace(partition=it.partition, error_code=0, leader_epoch=epoch, end_offset=end)
            )
        return SimpleNamespace(topic=asked.topic, partitions=ends)

    def _fetched(self, wanted: Any) -> Any:
        if self.refuses_to_be_read:
            return SimpleNamespace(error_code=Code.NOT_LEADER_OR_FOLLOWER, records=None)
        rest = [raw for raw in self._log if BatchHeader.read(raw).last_offset >= wanted.fetch_offset]
        readable = self._log and wanted.fetch_offset >= BatchHeader.read(self._log[0]).base_offset
        if rest and not readable:
            return SimpleNamespace(error_code=Code.OFFSET_OUT_OF_RANGE, records=None)
        return SimpleNamespace(error_code=0, records=rest[0] if rest else None)


def batch(first: int, end: int, epoch: int) -> bytes:
    """A batch of records from one offset up to another, written under a leader epoch."""
    raw = encode([Rec(b"x")] * (end - first), base_offset=first)
    raw[12:16] = epoch.to_bytes(4, "big")
    return bytes(raw)


def asked(partitions: Iterable[int]) -> dict[TopicPartition, ReadUpTo]:
    """Some partitions, read up to 10 in leader epoch 0."""
    return {("t", number): ReadUpTo(0, 10) for number in partitions}


def test_no_election_is_waited_for() -> None:
    """Fifty partitions without a leader, and one that is gone, cost one question, and the others are answered."""
    here = Leaders({**dict.fromkeys(range(50), -1), 50: 7})
    assert {("t", 50): EpochEnd(0, 0)} == epoch_ends(here, asked(range(52)))
    assert ["look up", "log in", "ask 7"] == here.did


def test_a_leader_that_does_not_know_the_question_is_not_asked() -> None:
    """It would end the connection; its partitions are left out, as those without a leader."""
    here = Leaders({0: 7})
    here.offers = -1
    assert {} == epoch_ends(here, asked([0]))
    assert ["look up"] == here.did


def test_leaders_that_are_known_are_not_looked_up() -> None:
    """One question to each; its login is kept."""
    here = Leaders({0: 1, 1: 2, 2: 1})
    here.metadata(["t"])
    here.did.clear()
    assert {("t", it): EpochEnd(0, 0) for it in range(3)} == epoch_ends(here, asked(range(3)))
    assert ["log in", "ask 1", "log in", "ask 2"] == here.did


ELECTED = [(4, 0), (5, 90)]
OLD_BRANCH = [(4, 0), (6, 120)]
REPLICATED = [batch(0, 90, 4)]
"""Epoch 4 had a leader with more than these, epoch 5 one without that; what is read came from the latter, up to 110."""


@pytest.mark.parametrize(
    ("epochs", "log", "expected"),
    [
        ([*ELECTED, (6, 110)], [*REPLICATED, batch(90, 110, 5)], None),
        ([*ELECTED, (6, 100)], [*REPLICATED, batch(90, 100, 5), batch(100, 130, 6)], 100),
        (OLD_BRANCH, [*REPLICATED, batch(90, 120, 4)], -1),
        (OLD_BRANCH, [*REPLICATED, batch(90, 120, 4), batch(120, 130, 6)], -1),
        ([(4, 0), (6, 110)], [*REPLICATED, batch(90, 110, 4), batch(110, 130, 6)], -1),
        ([(4, 0), (6, 100)], [*REPLICATED, batch(90, 100, 4), batch(100, 130, 6)], -1),
        (OLD_BRANCH, [*REPLICATED, batch(115, 120, 4), batch(120, 130, 6)], -1),
        ([(4, 110), (6, 120)], [batch(110, 120, 4), batch(120, 130, 6)], -1),
        ([(4, 0)], [*REPLICATED, batch(90, 130, 4)], -1),
    ],
)
def test_a_log_of_another_history_is_found_however_long_it_is(
    epochs: list[tuple[int, int]], log: list[bytes], expected: int | None
) -> None:
    """The one that was read, grown or cut short; and the older branch that an unclean election brought back."""
    read = ReadUpTo(5, 110)
    (answer,) = epoch_ends(Leaders({0: 1}, epochs, log), {("t", 0): read}).values()
    assert expected == diverged_at(read.epoch, answer, read.next_offset)


def test_a_log_that_cannot_be_looked_into_is_not_judged() -> None:
    """The leader has moved between the two questions: who asked has to ask again."""
    leaders = Leaders({0: 1}, OLD_BRANCH, [*REPLICATED, batch(90, 120, 4)])
    leaders.refuses_to_be_read = True
    assert {} == epoch_ends(leaders, {("t", 0): ReadUpTo(5, 110)})


@pytest.mark.parametrize(
    ("epochs", "log"),
    [
        ([(4, 0), (6, 125)], [*REPLICATED, batch(125, 130, 6)]),
        ([(4, 0), (6, 110)], [*REPLICATED, batch(110, 130, 6)]),
        ([(6, 125)], [batch(125, 130, 6)]),
        ([(4, 0), (6, 125)], []),
    ],
)
def test_what_was_compacted_away_before_a_replica_was_made_is_not_lost(
    epochs: list[tuple[int, int]], log: list[bytes]
) -> None:
    """Such a replica does not know the epoch, and holds nothing where its batches lay."""
    read = ReadUpTo(5, 110)
    (answer,) = epoch_ends(Leaders({0: 1}, epochs, log), {("t", 0): read}).values()
    assert None is diverged_at(read.epoch, answer, read.next_offset)

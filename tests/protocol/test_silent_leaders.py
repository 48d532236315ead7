"""A leader that neither answers nor goes: a lane that follows waits for answers, not for a leader."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from twinlog.config.security.connection import ConnectionSettings
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.fetch_backoff import FetchBackoff
from twinlog.protocol.fetcher import Fetcher


class Frozen:
    """A connection that takes what it is sent, and stays open."""

    def __init__(self, mine: socket.socket) -> None:
        self._socket = mine
        self.buffered = False
        self.asked, self.muted_until = 0, 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def offers(self, _: int) -> int:
        return 11

    def keep_login(self) -> None:
        pass

    def send(self, *_: Any) -> None:
        self.asked += 1


class Cluster:
    """Node 1 leads, and is frozen; `forgotten` counts how often leaders were to be found anew."""

    def __init__(self, connection: Frozen) -> None:
        self.settings = ConnectionSettings("A", (), request_timeout_ms=50)
        self.connection = connection
        self.dropped: list[Any] = []
        self.forgotten = 0

    def known_leader(self, *_: Any) -> int:
        return 1

    def node(self, *_: Any) -> Frozen:
        return self.connection

    def drop(self, connection: Frozen) -> None:
        self.dropped.append(connection)

    def forget_leaders(self) -> None:
        self.forgotten += 1


@pytest.fixture
def frozen() -> Iterator[Frozen]:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield Frozen(mine)


POSITIONS: dict[TopicPartition, int] = {("t", 0): 5}


def test_a_leader_that_says_nothing_for_the_request_timeout_is_lost(frozen: Frozen) -> None:
    """Not before; what it was asked is asked again, of whoever leads by then."""
    cluster = Cluster(frozen)
    fetcher = Fetcher(
        cluster,  # type: ignore[arg-type]
        max_bytes=1,
        partition_max_bytes=1,
        read_committed=True,
        backoff=FetchBackoff(),
    )
    fetcher.request(POSITIONS)
    assert ([], 0) == ([*fetcher.answers(0.0)], cluster.forgotten)
    began = time.monotonic()
    while not cluster.forgotten:
        assert [] == [*fetcher.answers(0.01)]
        assert time.monotonic() < began + 10
    assert (True, [frozen]) == (time.monotonic() >= began + 0.05, cluster.dropped)
    while frozen.asked < 2:  # it rests for a moment first
        fetcher.request(POSITIONS)
        assert time.monotonic() < began + 10

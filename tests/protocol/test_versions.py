"""Brokers that are too old, or too new, are refused in one line, by a broker of our own that only knows ApiVersions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from greeting_broker import TODAY, broker

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterRefused
from twinlog.protocol.kafka_python import (
    ADD_PARTITIONS,
    NEEDED,
    NEEDED_OF_TARGET,
    require,
)
from twinlog.protocol.socket.connection import Connection

require_target = partial(require, target=True)

KAFKA_2_8 = {0: (0, 9), 1: (0, 12), 2: (0, 6), 3: (0, 11), 10: (0, 3), 22: (0, 4), 24: (0, 3), 26: (0, 3)}
KAFKA_2_0 = {0: (0, 6), 1: (0, 8), 2: (0, 3), 3: (0, 6), 10: (0, 2), 22: (0, 1), 24: (0, 1), 26: (0, 1)}
KAFKA_1_0 = {0: (0, 5), 1: (0, 6), 2: (0, 2), 3: (0, 5), 10: (0, 1), 22: (0, 0), 24: (0, 0), 26: (0, 0)}
KAFKA_2_3 = {0: (0, 7), 1: (0, 11), 2: (0, 5), 3: (0, 8), 10: (0, 2), 22: (0, 1), 24: (0, 1), 26: (0, 1)}


def connect(offers: Mapping[int, tuple[int, int]]) -> None:
    """Log in and hang up."""
    with broker(offers) as port:
        Connection(ConnectionSettings("A", (("127.0.0.1", port),)), "127.0.0.1", port).close()


@pytest.mark.parametrize("offers", [TODAY, KAFKA_2_8, KAFKA_2_3, KAFKA_2_0])
def test_brokers_from_2_0_on_are_read_from(offers: Mapping[int, tuple[int, int]]) -> None:
    """The ranges of the oldest and the newest broker."""
    connect(offers)


def test_an_older_broker_is_refused_by_name() -> None:
    """One line: which broker, what it offers, what is needed, what to do."""
    with pytest.raises(ClusterRefused, match=r"cluster A at 127.0.0.1:\d+ offers Fetch v0 to v6") as caught:
        connect(KAFKA_1_0)
    assert caught.value.code == "broker-version"
    assert "Kafka 2.0" in caught.value.hint


def test_a_target_has_to_be_newer() -> None:
    """2.8 and later are taken; of an older one the line names what is missing, and that it may be a source."""
    for offers in (TODAY, KAFKA_2_8):
        require_target(offers, "B", "somewhere:9092")
    with pytest.raises(ClusterRefused, match="cluster B at somewhere:9092 offers Produce v0 to v7") as caught:
        require_target(KAFKA_2_3, "B", "somewhere:9092")
    assert caught.value.code == "broker-version"
    assert "Kafka 2.8 is the oldest to copy to" in caught.value.hint


@pytest.mark.parametrize(
    ("check", "key", "needed"),
    [
        (check, key, needed[key])
        for check, needed in ((require, NEEDED), (require_target, NEEDED_OF_TARGET))
        for key in sorted(needed)
    ],
)
def test_every_request_is_looked_at(
    check: Callable[..., None], key: int, needed: tuple[str, int, int]
) -> None:
    """Whichever is too old or no longer offered is named."""
    name, low, high = needed
    for span in ((0, low - 1), (high + 1, high + 3)):
        with pytest.raises(ClusterRefused, match=name):
            check(TODAY | {key: span}, "A", "somewhere:9092")


def test_only_what_both_sides_need_may_not_be_missing() -> None:
    """A source has no transactions to offer; a target without them is refused when one is to begin."""
    missed = set()
    for check, needed in ((require, NEEDED), (require_target, NEEDED_OF_TARGET)):
        for key in needed:
            try:
                check({other: span for other, span in TODAY.items() if other != key}, "A", "somewhere:9092")
            except ClusterRefused:
                missed.add(key)
    assert {1, 2, 3} == missed


def test_a_request_that_a_broker_does_not_offer_is_not_sent() -> None:
    """A broker would end the connection, which would look like a network that failed; the line names the request."""
    with broker({key: span for key, span in TODAY.items() if key not in {0, 24}}) as port:
        connection = Connection(ConnectionSettings("A", (("127.0.0.1", port),)), "127.0.0.1", port)
        with pytest.raises(ClusterRefused, match="does not offer Produce") as produce:
            connection.send(0, 9, [b""])
        with pytest.raises(ClusterRefused, match="does not offer AddPartitionsToTxn") as begin:
            connection.call(ADD_PARTITIONS)
        connection.close()
    assert ("not-offered", "not-offered") == (produce.value.code, begin.value.code)

"""Brokers close connections on which nothing was asked for long: a lane that had nothing to write goes on, unfenced.

Costs half a minute: a broker of its own, which closes them after two seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from test_traps import outgoing, values, writer

from lab import create_topic
from twinlog.config.security.connection import ConnectionSettings, SecurityProtocol, TlsSettings
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.producer import Lane
from twinlog.protocol import brokers as brokers_module
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.socket.connection import Connection

IDLE_SECONDS = 2.0


@pytest.fixture(scope="module")
def impatient_cluster() -> Iterator[Any]:
    """A broker that soon closes what is idle."""
    settings = {"connections.max.idle.ms": str(round(1000 * IDLE_SECONDS))}
    with EmbeddedKafka("impatient", listeners=("SSL",), settings=settings) as cluster:
        yield cluster


@pytest.fixture(params=["PLAINTEXT", "SSL"])
def impatient_brokers(request: pytest.FixtureRequest, impatient_cluster: Any) -> Iterator[Brokers]:
    """The relay's own view of it."""
    host, port = impatient_cluster.address(request.param).split(",")[0].rsplit(":", 1)
    settings = ConnectionSettings(
        "B",
        ((host, int(port)),),
        SecurityProtocol(request.param),
        TlsSettings(impatient_cluster.certificates.ca.read_text()),
    )
    with Brokers(settings) as opened:
        yield opened


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of connections as they are opened."""
    addresses: list[str] = []

    class Noted(Connection):
        def __init__(self, settings: ConnectionSettings, host: str, port: int, *told: Any) -> None:
            super().__init__(settings, host, port, *told)
            addresses.append(self.address)

    monkeypatch.setattr(brokers_module, "Connection", Noted)
    return addresses


def test_a_quiet_lane_goes_on(impatient_cluster: Any, impatient_brokers: Brokers, opened: list[str]) -> None:
    """It finds its connections closed and opens them anew; while they are open it keeps them."""
    topic = create_topic(impatient_cluster, f"quiet-{impatient_brokers.settings.protocol}")
    lane = Lane(impatient_brokers, writer(impatient_brokers))
    for number in range(9):
        if number % 3 == 0:
            time.sleep(2 * IDLE_SECONDS)
            opened.clear()
        assert [] == lane.write_state({(topic, 0): [outgoing(b"%d" % number)]})
        lane.commit()
        assert (number % 3 == 0) == bool(opened)
        opened.clear()
    lane.await_markers()
    assert [b"%d" % number for number in range(9)] == values(impatient_cluster, topic)

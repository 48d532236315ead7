"""A cluster is silent if no broker answers for the seconds asked for: neither a restart nor a lost packet is that."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing

from greeting_broker import broker

from twinlog.config.security.connection import ConnectionSettings
from twinlog.protocol import silence


def answers(*ports: int, seconds: float = 1.0) -> bool:
    """Ask for a second whether a cluster with brokers on these ports answers."""
    return silence.answers(
        ConnectionSettings("A", tuple(("127.0.0.1", port) for port in ports), connect_timeout_ms=30_000),
        seconds,
    )


def closed_port() -> int:
    """A port that refuses connections."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


def test_one_broker_that_answers_is_enough() -> None:
    """Beside one that refuses connections."""
    with broker() as port:
        assert answers(closed_port(), port)


def test_addresses_that_refuse_or_say_nothing_are_silent() -> None:
    """All are waited for at once, and no longer than asked for, whatever the client's time-outs are."""
    with closing(socket.create_server(("127.0.0.1", 0))) as mute:
        began = time.monotonic()
        assert not answers(closed_port(), *[mute.getsockname()[1]] * 8)
        assert 8 > time.monotonic() - began >= 0.5


def test_a_broker_that_comes_back_meanwhile_is_not_silent() -> None:
    """A broker that restarts refuses connections for a moment."""
    port = closed_port()
    heard: list[bool] = []
    asking = threading.Thread(target=lambda: heard.append(answers(port, seconds=30.0)))
    asking.start()
    time.sleep(0.6)
    with broker(port=port):
        asking.join()
    assert [True] == heard

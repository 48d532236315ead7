"""What ends a connection, and whether that is a refusal or a cluster that is away."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from twinlog.config.security.connection import ConnectionSettings, SaslSettings, SecurityProtocol
from twinlog.errors import ClusterRefused, ClusterUnreachable
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.kafka_python import EXPECTED, METADATA, NEEDED, NEEDED_OF_TARGET
from twinlog.protocol.socket.connection import Connection

TLS = ConnectionSettings("A", (), protocol=SecurityProtocol.SSL)
HANDSHAKE_FAILURE = b"\x15\x03\x03\x00\x02\x02\x28"


@contextmanager
def listener(greet: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """A peer that takes connections, does as told, and closes them."""

    def serve() -> None:
        while True:
            try:
                there, _ = listening.accept()
            except OSError:
                return
            with there:
                there.recv(4096)
                greet(there)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)


def _reset(there: socket.socket) -> None:
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextmanager
def broker() -> Iterator[tuple[str, int]]:
    """One that says what it can do, and goes away at the next question."""
    versions = b"".join(struct.pack(">hhh", key, 0, 12) for key in NEEDED | NEEDED_OF_TARGET)
    body = struct.pack(">iihi", len(versions) + 10, 1, 0, len(NEEDED | NEEDED_OF_TARGET)) + versions

    def answer_once(there: socket.socket) -> None:
        there.sendall(body)
        there.recv(4096)

    with listener(answer_once) as address:
        yield address


@pytest.mark.parametrize("greet", [lambda _: None, _reset])
def test_a_peer_that_goes_away_during_the_handshake_is_a_broker_that_is_away(greet) -> None:
    """It shuts down, or is a load balancer with nobody behind it: the next cycle tries again."""
    with listener(greet) as (host, port), pytest.raises(ClusterUnreachable, match=f"at {host}:{port}"):
        Connection(TLS, host, port)


def test_a_peer_that_refuses_the_handshake_is_a_refusal() -> None:
    """By an alert: no retry mends that."""
    with listener(lambda there: there.sendall(HANDSHAKE_FAILURE)) as (host, port):
        with pytest.raises(ClusterRefused, match="TLS handshake with cluster A") as caught:
            Connection(TLS, host, port)
        assert "tls" == caught.value.code


def test_a_login_keeps_to_what_the_broker_knows() -> None:
    """Kafka 2.0 and 2.1 end the connection at SaslAuthenticate v1, so versions are asked before."""
    spans = dict.fromkeys(NEEDED, (0, 12)) | {17: (0, 1), 36: (0, 0)}
    asked: list[tuple[int, int]] = []

    def answers(there: socket.socket) -> None:
        versions = b"".join(struct.pack(">hhh", key, *span) for key, span in spans.items())
        answer = struct.pack(">hi", 0, len(spans)) + versions
        for correlation, behind in (
            (1, answer),
            (2, struct.pack(">hi", 0, 0)),
            (3, struct.pack(">hhi", 0, -1, 0)),
        ):
            if correlation > 1:
                asked.append(struct.unpack_from(">hh", there.recv(4096), 4))
            there.sendall(struct.pack(">ii", len(behind) + 4, correlation) + behind)
        there.recv(4096)

    sasl = SaslSettings("PLAIN", username="alice", password="a")
    settings = ConnectionSettings("A", (), protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    with listener(answers) as (host, port):
        Connection(settings, host, port).close()
    assert [(17, 1), (36, 0)] == asked


def test_a_connection_that_was_lost_with_a_request_is_not_handed_out_again() -> None:
    """Its question will never be answered; the next one needs a new connection."""
    with broker() as (host, port), Brokers(ConnectionSettings("A", ((host, port),))) as brokers:
        brokers._addresses[1] = host, port
        lost = brokers.node(1, "coordinate")
        with pytest.raises(ClusterUnreachable):
            lost.call(METADATA, topics=[], allow_auto_topic_creation=False)
        assert (1, True) == (lost.in_flight, lost.ended)
        assert lost is not brokers.node(1, "coordinate")


@pytest.mark.integration
def test_a_broker_of_another_cluster_is_not_taken_for_ours(cluster_a: Any, cluster_b: Any) -> None:
    """An address that now leads to another cluster, or another node, is that of a broker that is away."""
    settings = ConnectionSettings("A", (at(cluster_a),))
    with Brokers(settings) as brokers:
        brokers.metadata([])
        [node] = brokers._addresses
        assert brokers.node(node, "fetch").offers(18) >= EXPECTED
        brokers._addresses |= {node: at(cluster_b), node + 1: at(cluster_a)}
        for moved in (node, node + 1):
            with pytest.raises(ClusterUnreachable, match=f"it is not broker {moved} of the cluster"):
                brokers.node(moved, "produce")


def at(cluster: Any) -> tuple[str, int]:
    host, port = cluster.bootstrap_servers.rsplit(":", 1)
    return host, int(port)

"""A broker that says much before it reads on: what refuses every record of a batch says so of each of them."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator

import pytest

from twinlog.config.security.connection import ConnectionSettings, SecurityProtocol, TlsSettings
from twinlog.lab.kafka.certificates import Certificates, make_certificates
from twinlog.protocol import wire
from twinlog.protocol.kafka_python import NEEDED, NEEDED_OF_TARGET
from twinlog.protocol.socket.connection import Connection, fresh_buffer

BUFFER_BYTES = 100 * 1024
"""Of a broker's sockets, as socket.send.buffer.bytes is by default."""

ANSWER_BYTES = 2_000_000
REQUESTS = 6


def served(listening: socket.socket, context: ssl.SSLContext | None) -> None:
    """As Kafka does: one request of a connection at a time, and its answer is out before the next one is read."""
    there, _ = listening.accept()
    there.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    if context is not None:
        there = context.wrap_socket(there, server_side=True)
    with there, there.makefile("rb") as requests:
        while head := requests.read(4):
            request = requests.read(*struct.unpack(">i", head))
            api, _, correlation = struct.unpack_from(">hhi", request)
            if api == wire.PRODUCE:
                body = bytes(ANSWER_BYTES - 1) + bytes([correlation])
            else:
                versions = b"".join(struct.pack(">hhh", key, 0, 12) for key in NEEDED | NEEDED_OF_TARGET)
                body = struct.pack(">hi", 0, len(NEEDED | NEEDED_OF_TARGET)) + versions
            there.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Those of a broker at 127.0.0.1."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=[SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL])
def connection(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Connection]:
    """A connection to such a broker, whose patience is two seconds."""
    context = None
    if request.param is SecurityProtocol.SSL:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server, certificates.server_key)
    tls = TlsSettings(ca_pem=certificates.ca.read_text())
    settings = ConnectionSettings("B", (), request.param, tls, request_timeout_ms=2000)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        threading.Thread(target=served, args=(listening, context), daemon=True).start()
        found = Connection(settings, *listening.getsockname())
        # As on a network; the loopback's own buffers hold megabytes.
        found._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        yield found
        found.close()


@pytest.mark.parametrize("flushes", [False, True])
@pytest.mark.parametrize(("size", "written_behind"), [(3_000_000, True), (150_000, True), (3_000_000, False)])
def test_answers_are_read_while_a_write_waits_for_it(
    connection: Connection, size: int, written_behind: bool, flushes: bool
) -> None:
    """Otherwise both sides wait for the other to read until one gives up; all arrive, in their order."""
    requests = [[bytes(size)] for _ in range(REQUESTS)]
    connection.send(wire.PRODUCE, wire.PRODUCE_VERSION, *requests, write_behind=written_behind)
    if flushes:
        connection.flush()
    answers = [connection.receive(fresh_buffer) for _ in requests]
    assert [ANSWER_BYTES] * REQUESTS == [len(answer) for answer in answers]
    assert sorted({answer[-1] for answer in answers}) == [answer[-1] for answer in answers]
    assert (0, False) == (connection.in_flight, connection.buffered)

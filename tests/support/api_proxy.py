"""A proxy before a broker that refuses single requests (api keys), as managed clusters and old ones do.

It knows of Kafka where requests and answers begin, and whose they are.  The refusals are the broker's own, at every
version: a denied request goes to the broker as a user who may do nothing, over a second connection.

    denied    the broker's answer to a user without any right
    hidden    the request is missing in the answer to ApiVersions; sent all the same, it ends the connection
    closed    the request ends the connection, though ApiVersions names it

Brokers answer a connection's requests one after the other, and so does this.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36


class How(StrEnum):
    """The ways in which a request is refused."""

    DENIED = "denied"
    HIDDEN = "hidden"
    CLOSED = "closed"


@dataclass
class Refusals:
    """What is refused from now on, by api key; `hit` counts what was, `asked` every request."""

    of: dict[int, How] = field(default_factory=dict)
    hit: Counter[int] = field(default_factory=Counter)
    asked: Counter[int] = field(default_factory=Counter)


class ApiProxy:
    """Listens on `port`; `broker` is where requests go, `nobody` where denied ones go, with user and password."""

    def __init__(self) -> None:
        self.refusals = Refusals()
        self.broker: tuple[str, int] | None = None
        self.nobody: tuple[tuple[str, int], str, str] | None = None
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def refuse(self, of: dict[int, How]) -> None:
        """Refuse these from now on; clients begin anew, since they know what was offered before."""
        self.refusals.of, self.refusals.hit, self.refusals.asked = dict(of), Counter(), Counter()
        self.cut_all()

    def cut_all(self) -> None:
        """End every connection."""
        for client in list(self._clients):
            _end(client)
        self._clients.clear()

    def close(self) -> None:
        self._server.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self._clients.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        assert self.broker is not None
        ends = [client]
        nobody: socket.socket | None = None
        try:
            broker = _connected(self.broker)
            ends.append(broker)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := _frame(client)) is not None:
                (api,) = struct.unpack_from(">h", request)
                how = self.refusals.of.get(api)
                self.refusals.asked[api] += 1
                if how is not None:
                    self.refusals.hit[api] += 1
                if how in {How.CLOSED, How.HIDDEN}:
                    return
                if how is How.DENIED and nobody is None:
                    assert self.nobody is not None
                    nobody = _logged_in(*self.nobody)
                    ends.append(nobody)
                asked = nobody if how is How.DENIED and nobody is not None else broker
                answer = _ask(asked, request)
                if answer is None:
                    return
                if api == API_VERSIONS:
                    answer = without(answer, request, self._hidden())
                client.sendall(struct.pack(">i", len(answer)) + answer)
        except OSError:
            return
        finally:
            for end in ends:
                _end(end)

    def _hidden(self) -> frozenset[int]:
        return frozenset(api for api, how in self.refusals.of.items() if how is How.HIDDEN)


def without(answer: bytes, request: bytes, hidden: frozenset[int]) -> bytes:
    """Leave requests out of an ApiVersions answer: correlation, error code, then (key, lowest, highest) each.

    From version 3 on the array is compact and each entry ends with its tagged fields (none here).
    """
    (version,) = struct.unpack_from(">h", request, 2)
    (error,) = struct.unpack_from(">h", answer, 4)
    if not hidden or error:
        return answer
    at = 6
    if version < 3:
        (count,) = struct.unpack_from(">i", answer, at)
        at, size = at + 4, 6
    else:
        count, at = _varint(answer, at)
        count, size = count - 1, 7
    entries = [answer[at + size * n : at + size * (n + 1)] for n in range(count)]
    kept = [it for it in entries if struct.unpack_from(">h", it)[0] not in hidden]
    head = struct.pack(">i", len(kept)) if version < 3 else _as_varint(len(kept) + 1)
    return answer[:6] + head + b"".join(kept) + answer[at + size * count :]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _connected(address: tuple[str, int]) -> socket.socket:
    result = socket.create_connection(address, timeout=5)
    result.settimeout(None)
    result.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return result


def _logged_in(address: tuple[str, int], user: str, password: str) -> socket.socket:
    """Log in by SASL PLAIN: SaslHandshake v1, SaslAuthenticate v0."""
    result = _connected(address)
    secret = f"\0{user}\0{password}".encode()
    _ask(result, struct.pack(">hhih", SASL_HANDSHAKE, 1, 1, -1) + _text("PLAIN"))
    token = struct.pack(">i", len(secret)) + secret
    answer = _ask(result, struct.pack(">hhih", SASL_AUTHENTICATE, 0, 2, -1) + token)
    if answer is None or answer[4:6] != b"\0\0":
        raise AssertionError(f"the broker did not let {user} in: {answer!r}")
    return result


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _ask(broker: socket.socket, request: bytes) -> bytes | None:
    broker.sendall(struct.pack(">i", len(request)) + request)
    return _frame(broker)


def _frame(end: socket.socket) -> bytes | None:
    """Read a frame (int32 size, then so many bytes); None at the end of the connection."""
    head = _read(end, 4)
    return None if head is None else _read(end, struct.unpack(">i", head)[0])


def _read(end: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = end.recv_into(view[at:])
        if not got:
            return None
        at += got
    return bytes(data)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()

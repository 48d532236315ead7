"""A TCP proxy on loopback that cuts, delays and throttles: what networks do, at moments of our choosing.

A broker behind it advertises the proxy's port on a listener of its own, so nothing has to be rewritten.  It knows
of Kafka only where a request begins and what it asks, so that it can lose the answers of one kind of request.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

UP, DOWN = "request", "response"


@dataclass
class Faults:
    """What the proxy does to the traffic from now on.

    `cut_after`: by direction, bytes after which the connection that carries them is reset, once.  `lose_answers_of`:
    api keys; the request is passed on, its answer is not, and the connection ends.  `deliver_late`: api keys; the
    client loses its connection, and the broker gets the request up to `late_seconds` later, `on_the_way` until then.
    `silent`: nothing passes, and no connection ends, until it is False again.
    `cuts`, `lost_answers` and `late` (by api key) and `held_up` (bytes that came late) say what hit.
    """

    silent: bool = False
    delay_seconds: float = 0.0
    bytes_per_second: int = 0
    cut_after: dict[str, int] = field(default_factory=dict)
    lose_answers_of: Counter[int] = field(default_factory=Counter)
    deliver_late: Counter[int] = field(default_factory=Counter)
    late_seconds: float = 0.0
    cuts: int = 0
    lost_answers: Counter[int] = field(default_factory=Counter)
    late: Counter[int] = field(default_factory=Counter)
    on_the_way: int = 0
    held_up: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def calm(self) -> None:
        """Pass everything on as it comes."""
        with self.lock:
            self.silent, self.delay_seconds, self.bytes_per_second = False, 0.0, 0
            self.cut_after.clear()
            self.lose_answers_of.clear()
            self.deliver_late.clear()

    def passes(self, direction: str, size: int) -> int:
        """How many of `size` bytes pass before a cut; all of them when none is due."""
        with self.lock:
            left = self.cut_after.get(direction)
            if left is None:
                return size
            if left >= size:
                self.cut_after[direction] = left - size
                return size
            del self.cut_after[direction]
            self.cuts += 1
            return left

    def loses(self, api: int) -> bool:
        """Whether the answer to this request is to be lost."""
        with self.lock:
            if self.lose_answers_of[api] <= 0:
                return False
            self.lose_answers_of[api] -= 1
            self.lost_answers[api] += 1
            return True

    def is_late(self, api: int) -> bool:
        """Whether this request is to arrive late."""
        with self.lock:
            if self.deliver_late[api] <= 0:
                return False
            self.deliver_late[api] -= 1
            self.on_the_way += 1
            return True

    def delivered(self, api: int, *, answered: bool) -> None:
        """Note that a late request has arrived; it counts if the broker answered it."""
        with self.lock:
            self.on_the_way -= 1
            self.late[api] += answered


class Proxy:
    """Listens on `port` and connects each client to `target` (host, port).

    `faults_of` names what is done to one connection, by its client's port; by default all share `faults`.
    """

    def __init__(self, faults_of: Callable[[int], Faults] | None = None) -> None:
        self.faults = Faults()
        self._faults_of = faults_of or (lambda _: self.faults)
        self.target: tuple[str, int] | None = None
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._pairs: list[_Pair] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.getsockname()[1])

    def cut_all(self) -> None:
        """Reset every connection now."""
        for pair in list(self._pairs):
            pair.reset()

    def close(self) -> None:
        self._server.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            assert self.target is not None
            try:
                broker = socket.create_connection(self.target, timeout=5)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            self._pairs = [pair for pair in self._pairs if not pair.over]
            self._pairs.append(_Pair(client, broker, self._faults_of(client.getpeername()[1])))


class _Pair:
    """One client and its broker."""

    def __init__(self, client: socket.socket, broker: socket.socket, faults: Faults) -> None:
        self._client, self._broker, self._faults = client, broker, faults
        self._losing = False
        self._late: int | None = None
        self._answered = threading.Event()
        self.over = False
        self._head = bytearray()
        self._body_left = 0
        # Both before the first pump: it may end at once, and take both ends with it.
        for end in (client, broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for source, sink, direction in ((client, broker, UP), (broker, client, DOWN)):
            threading.Thread(target=self._pump, args=(source, sink, direction), daemon=True).start()

    def reset(self) -> None:
        """End both connections by RST, as a crashed host or a firewall does."""
        self.over = True
        for end in (self._client, self._broker):
            _cut(end)

    def _pump(self, source: socket.socket, sink: socket.socket, direction: str) -> None:
        try:
            while data := source.recv(16384):
                if direction == UP:
                    self._watch(data)
                    if self._late is not None:
                        self._deliver_late(data)
                        break
                elif self._late is not None:
                    self._answered.set()
                    continue
                elif self._losing:
                    break
                faults = self._faults
                while faults.silent and not self.over:
                    time.sleep(0.02)
                if faults.delay_seconds:
                    time.sleep(faults.delay_seconds)
                if faults.bytes_per_second:
                    time.sleep(len(data) / faults.bytes_per_second)
                    faults.held_up += len(data)
                allowed = faults.passes(direction, len(data))
                sink.sendall(data[:allowed])
                if allowed < len(data):
                    break
        except OSError:
            pass
        self.reset()

    def _deliver_late(self, held: bytes) -> None:
        """Take the rest of the late request, cut its client off, and send the request a while later."""
        assert self._late is not None
        try:
            while (self._body_left or self._head) and (more := self._client.recv(16384)):
                self._watch(more)
                held += more
            _cut(self._client)
            time.sleep(random.uniform(0.0, self._faults.late_seconds))
            self._answered.clear()
            self._broker.sendall(held)
            self._answered.wait(5)
        finally:
            self._faults.delivered(self._late, answered=self._answered.is_set())

    def _watch(self, data: bytes) -> None:
        """Follow request frames: int32 size, int16 api key, ..."""
        for byte in data:
            if self._body_left:
                self._body_left -= 1
                continue
            self._head.append(byte)
            if len(self._head) == 6:
                size, api = struct.unpack(">ih", self._head)
                self._body_left, self._head = size - 2, bytearray()
                self._losing = self._losing or self._faults.loses(api)
                if self._late is None and self._faults.is_late(api):
                    self._late = api


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    end.close()

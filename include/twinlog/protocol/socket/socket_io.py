"""Hand buffers to the kernel, and fill buffers from a socket with few wake-ups, a large part of a large answer's cost.

While a slow broker takes a large write, the caller can go on with other work.
"""

from __future__ import annotations

import selectors
import socket
import struct
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from itertools import chain

from twinlog.protocol.socket.encryption import RECORD, Encryption
from twinlog.protocol.wire import Buffer

GATHERED = 256 * 1024
"""Bytes that the kernel gathers before it wakes us, as long as more are sure to come (SO_RCVLOWAT).

The kernel doubles its receive buffer to hold them, and gathers fewer if its limits (tcp_rmem) are lower.
"""

_AT_ONCE = 1 << 20
"""Bytes of encrypted data that are taken at once, if there are so many."""


class Receiver:
    """Read from a blocking socket, over plain TCP everything asked for at once.

    What was taken before anything asked for it waits in `early`, or in `encryption`, which belongs to a TLS connection.
    """

    def __init__(self, connected: socket.socket, encryption: Encryption | None = None) -> None:
        self._socket = connected
        self._early = bytearray()
        self._encryption = encryption
        self._gathers = self._wake_at(1)

    @property
    def early(self) -> bool:
        """Say whether bytes were taken that nobody has asked for yet."""
        return bool(self._early) or (self._encryption is not None and self._encryption.holds)

    def fill(self, target: memoryview) -> None:
        """Fill `target`, waiting as long as needed.  Raises OSError if the connection ends or times out."""
        fill = self._fill if self._encryption is None else partial(self._decrypt, self._encryption)
        if self._gathers and len(target) > 2 * GATHERED:
            # Not to the last byte: what has come and is not taken yet wakes us, and no data may follow it.  So GATHERED
            # bytes must be left by the time a call has taken all that it asks for.  Over TLS, a part of a record may
            # have been taken before, and a call asks for a record more than is wanted.
            last = GATHERED + 2 * RECORD
            self._wake_at(GATHERED)
            fill(target[:-last])
            self._wake_at(1)
            target = target[-last:]
        fill(target)

    def _fill(self, target: memoryview) -> None:
        at = min(len(target), len(self._early))
        if at:
            target[:at] = self._early[:at]
            del self._early[:at]
        while at < len(target):
            got = self._socket.recv_into(target[at:], 0, socket.MSG_WAITALL)
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            at += got

    def _decrypt(self, encryption: Encryption, target: memoryview) -> None:
        while (at := encryption.decrypt(target)) < len(target):
            target = target[at:]
            self._take(self._socket.recv(min(_AT_ONCE, len(target) + RECORD)))

    def take_early(self) -> None:
        """Take the bytes that have arrived, without waiting.  Raises OSError if the connection has ended."""
        with suppress(BlockingIOError):
            while True:
                self._take(self._socket.recv(GATHERED, socket.MSG_DONTWAIT))

    def _take(self, piece: bytes) -> None:
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        if self._encryption is None:
            self._early += piece
        else:
            self._encryption.received(piece)

    def _wake_at(self, size: int) -> bool:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        except OSError:
            return False  # a system without it
        return True


LARGE = 1 << 20
"""From this size (bytes) a write gets a thread; smaller writes the kernel takes at once, into the socket's buffer."""

_TIMEVAL = struct.Struct("@ll")

_MAX_BUFFERS = 1000
"""The number of buffers for one sendmsg call, below its limit IOV_MAX."""


class Sender:
    """Write to a blocking socket, in order.

    At most one write goes on in the background; the next write waits for it.  Its buffers must stay unchanged until
    `flush` has returned.

    While a write waits, the broker's answers are taken here and kept by `receiver`: the broker reads nothing more from
    us until they have been taken.  During a large write in the background, the caller takes them instead.
    """

    def __init__(
        self, connected: socket.socket, receiver: Receiver, encryption: Encryption | None = None
    ) -> None:
        self._socket = connected
        self._receiver = receiver
        self._encryption = encryption
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def send(self, requests: Sequence[Sequence[Buffer]], *, write_behind: bool = False) -> None:
        """Write requests, each made of buffers; with `write_behind`, return at once from a large write.

        Raises OSError from this write or from the one that went on in the background.
        """
        self.flush()
        if not write_behind or sum(len(buffer) for request in requests for buffer in request) < LARGE:
            self._send(requests)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "twinlog-send")
        self._under_way = self._thread.submit(self._send, requests, behind=True)

    def flush(self) -> None:
        """Wait until the kernel has taken everything.  Raises OSError if a write failed."""
        self.taken(None)

    def taken(self, seconds: float | None) -> bool:
        """Wait at most `seconds`; say whether the kernel has taken everything.  Raises OSError if a write failed."""
        if self._under_way is None:
            return True
        if not wait([self._under_way], seconds).done:
            return False
        under_way, self._under_way = self._under_way, None
        under_way.result()
        return True

    def close(self) -> None:
        """End a write that goes on in the background; its result no longer matters."""
        if self._under_way is not None:
            with suppress(OSError):  # the socket is no longer connected, so the thread is awake already
                self._socket.shutdown(socket.SHUT_RDWR)  # this wakes the thread; closing would not
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def _send(self, requests: Sequence[Sequence[Buffer]], *, behind: bool = False) -> None:
        buffers = list(chain.from_iterable(requests))
        if self._encryption is None:
            self._write(buffers, behind=behind)
            return
        for encrypted in self._encryption.encrypt(buffers):
            self._write([encrypted], behind=behind)

    def _write(self, buffers: list[Buffer], *, behind: bool) -> None:
        # In the background the kernel may wait, which needs fewer calls for a large write.
        flags = 0 if behind else socket.MSG_DONTWAIT
        while buffers:
            try:
                buffers = _behind(self._socket.sendmsg(buffers[:_MAX_BUFFERS], (), flags), buffers)
            except BlockingIOError:
                if behind:
                    raise
                self._wait_to_write(_patience(self._socket))

    def _wait_to_write(self, patience: float | None) -> None:
        """Wait up to `patience` seconds until the kernel takes more or the broker answers; take the broker's bytes."""
        # Not epoll: epoll never reports a socket that is closed meanwhile.
        with selectors.PollSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
            ready = selector.select(patience)
        if not ready:
            raise TimeoutError("the broker takes nothing and says nothing")
        if ready[0][1] & selectors.EVENT_READ:
            self._receiver.take_early()


def _patience(plain: socket.socket) -> float | None:
    """Return the seconds that a blocking socket waits to write, None for ever."""
    seconds, micros = _TIMEVAL.unpack(plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size))
    return seconds + micros / 1_000_000 or None


def _behind(sent: int, buffers: list[Buffer]) -> list[Buffer]:
    """Leave out the first `sent` bytes: usually all of them, as the kernel waits until it has taken everything."""
    for index, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[index + 1 :]]
        sent -= len(buffer)
    return []

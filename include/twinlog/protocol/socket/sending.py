"""Hand buffers to the kernel: while a slow broker takes a large write, whoever sends can go on with other work."""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final

from twinlog.protocol.socket.receiving import Receiver
from twinlog.protocol.wire import Buffer

LARGE: Final = 1 << 20
"""Bytes from which on a write is worth a thread: the kernel takes smaller ones at once, into the socket's buffer."""

_TIMEVAL: Final = struct.Struct("@ll")

_MAX_BUFFERS: Final = 1000
"""Below IOV_MAX, the number of buffers one sendmsg takes."""


class Sender:
    """Writes to a blocking socket, in order.

    One write at most is under way behind the caller's back; the next one waits for it.  Its buffers must stay as they
    are until `flush` has returned.

    What the broker says while a write waits is taken here, and kept by `receiver`: it reads no more of us until it was
    taken.  While a large write is under way over TCP the caller does that; two threads may not use TLS at once.
    """

    def __init__(self, connected: socket.socket, receiver: Receiver) -> None:
        self._socket = connected
        self._receiver = receiver
        self._encrypted = isinstance(connected, ssl.SSLSocket)
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def send(self, requests: Sequence[Sequence[Buffer]], *, write_behind: bool = False) -> None:
        """Write requests, each made of buffers; with `write_behind` a large write returns at once.

        Raises OSError of this write or of the one that was under way.
        """
        self.flush()
        if not write_behind or sum(len(buffer) for request in requests for buffer in request) < LARGE:
            self._send(requests)
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "twinlog-send")
        self._under_way = self._thread.submit(self._send, requests, behind=True)

    def flush(self) -> None:
        """Wait until the kernel has taken everything.  Raises OSError when it did not."""
        self.taken(None)

    def taken(self, seconds: float | None) -> bool:
        """Wait so long at most; return whether the kernel has taken everything.  Raises OSError when it will not."""
        if self._under_way is None:
            return True
        if not wait([self._under_way], seconds).done:
            return False
        under_way, self._under_way = self._under_way, None
        under_way.result()
        return True

    def close(self) -> None:
        """End a write that is under way; whatever it says no longer matters."""
        if self._under_way is not None:
            with suppress(OSError):  # no longer connected: then the thread is awake
                # Wakes the thread, which closing would not.  TLS's own shutdown would first take the encryption away.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.shutdown(wait=False)

    def _send(self, requests: Sequence[Sequence[Buffer]], *, behind: bool = False) -> None:
        if self._encrypted:
            for request in requests:
                self._send_encrypted(b"".join(request))
            return
        buffers = [buffer for request in requests for buffer in request]
        # Behind, the kernel waits: fewer calls for a large write.
        flags = 0 if behind else socket.MSG_DONTWAIT
        while buffers:
            try:
                buffers = _behind(self._socket.sendmsg(buffers[:_MAX_BUFFERS], (), flags), buffers)
            except BlockingIOError:
                if behind:
                    raise
                self._wait_to_write(_patience(self._socket))

    def _send_encrypted(self, data: bytes) -> None:
        """Write all of `data`.  Raises TimeoutError when nothing goes on for the socket's patience."""
        patience, left = self._socket.gettimeout(), memoryview(data)
        self._socket.settimeout(0)
        try:
            while left:
                try:
                    left = left[self._socket.send(left) :]
                except ssl.SSLWantWriteError:
                    self._wait_to_write(patience)
        finally:
            self._socket.settimeout(patience)

    def _wait_to_write(self, patience: float | None) -> None:
        """Wait until the kernel takes more, and take what the broker says; up to `patience` seconds for either."""
        # Not epoll, which never hears of a socket that is closed meanwhile.
        with selectors.PollSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
            ready = selector.select(patience)
        if not ready:
            raise TimeoutError("the broker takes nothing and says nothing")
        if ready[0][1] & selectors.EVENT_READ:
            self._receiver.take_early()


def _patience(plain: socket.socket) -> float | None:
    """Seconds that a blocking socket waits to write, None for ever."""
    seconds, micros = _TIMEVAL.unpack(plain.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.size))
    return seconds + micros / 1_000_000 or None


def _behind(sent: int, buffers: list[Buffer]) -> list[Buffer]:
    """Leave out the first `sent` bytes: as a rule all of them, as the kernel waits until it has taken everything."""
    for index, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[index + 1 :]]
        sent -= len(buffer)
    return []

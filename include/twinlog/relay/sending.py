"""Hand buffers to the kernel: while a slow broker takes a large write, whoever sends can go on with other work."""

from __future__ import annotations

import selectors
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final

from twinlog.relay.receiving import Receiver
from twinlog.relay.wire import Buffer

LARGE: Final = 1 << 20
"""Bytes from which on a write is worth a thread: the kernel takes smaller ones at once, into the socket's buffer."""

_MAX_BUFFERS: Final = 1000
"""Below IOV_MAX, the number of buffers one sendmsg takes."""


class Sender:
    """Writes to a blocking socket, in order.

    One write at most is under way behind the caller's back; the next one waits for it.  Its buffers must stay as they
    are until `flush` has returned.

    Over TLS nobody else may read meanwhile: what comes while a write waits is taken here, and given to `receiver`.
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
        self._under_way = self._thread.submit(self._send, requests)

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

    def _send(self, requests: Sequence[Sequence[Buffer]]) -> None:
        if self._encrypted:
            for request in requests:
                self._send_encrypted(b"".join(request))
            return
        buffers = [buffer for request in requests for buffer in request]
        while buffers:
            buffers = _behind(self._socket.sendmsg(buffers[:_MAX_BUFFERS]), buffers)

    def _send_encrypted(self, data: bytes) -> None:
        """Write all of `data`, and take what the broker says while it does not read.

        Raises TimeoutError when neither goes on for the socket's patience.
        """
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
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
            ready = selector.select(patience)
        if not ready:
            raise TimeoutError("the broker takes nothing and says nothing")
        if ready[0][1] & selectors.EVENT_READ:
            self._receiver.take_early()


def _behind(sent: int, buffers: list[Buffer]) -> list[Buffer]:
    """Leave out the first `sent` bytes: as a rule all of them, as the kernel waits until it has taken everything."""
    for index, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[index + 1 :]]
        sent -= len(buffer)
    return []

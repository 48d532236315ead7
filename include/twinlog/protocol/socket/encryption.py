"""Encrypt what a connection sends and decrypt what it receives, apart from its socket.

So one system call takes as many TLS records as have come, where Python's SSLSocket needs two for each, and one thread
may read while another writes.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from twinlog.protocol.wire import Buffer

RECORD = 16 * 1024
"""The most bytes that a TLS record holds."""

_WRITTEN = 128 * 1024
"""Encrypted bytes that go to the kernel at once; few enough to be in the processor's cache still."""


class Encryption:
    """One side of a TLS connection, as a client.

    `shake_hands` comes first.  Later failures are ssl.SSLError, an OSError.
    """

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._one_at_a_time = threading.Lock()  # an SSL object may not be used by two threads at once

    def shake_hands(self, plain: socket.socket) -> None:
        """Agree with the broker on keys, and verify it.  Raises OSError, its kind SSLEOFError if the broker ends it."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                plain.sendall(self._outgoing.read())
            except ssl.SSLError:
                with suppress(OSError):
                    plain.sendall(self._outgoing.read())  # an alert that says why
                raise
            else:
                plain.sendall(self._outgoing.read())
                return
            if received := plain.recv(4 * RECORD):
                self._incoming.write(received)
            else:
                self._incoming.write_eof()

    @property
    def holds(self) -> bool:
        """Say whether bytes have been received that nobody has asked for yet."""
        return bool(self._incoming.pending or self._tls.pending())

    def received(self, encrypted: bytes) -> None:
        """Take what came from the socket."""
        with self._one_at_a_time:
            self._incoming.write(encrypted)

    def decrypt(self, target: memoryview) -> int:
        """Fill `target` as far as what was received reaches; return the number of bytes.

        Raises ConnectionResetError if the broker says that it ends the connection.
        """
        at, size, read = 0, len(target), self._tls.read
        with self._one_at_a_time, suppress(ssl.SSLWantReadError):
            while at < size:
                # (With a buffer given, this returns the number of bytes.)
                got = int(read(size - at, target[at:]))
                if not got:
                    raise ConnectionResetError("the broker closed the connection")
                at += got
        return at

    def encrypt(self, buffers: Iterable[Buffer]) -> Iterator[bytes]:
        """Yield buffers encrypted, in pieces for the kernel."""
        for part in _records(buffers):
            left = part
            while left:
                with self._one_at_a_time:
                    left = left[self._tls.write(left) :]
                    ready = self._outgoing.read() if self._outgoing.pending >= _WRITTEN else b""
                if ready:
                    yield ready
        yield self._outgoing.read()


def _records(buffers: Iterable[Buffer]) -> Iterator[memoryview]:
    """Cut buffers into whole records, joining only what does not fill one."""
    begun = bytearray()
    for buffer in buffers:
        left = memoryview(buffer)
        if begun:
            missing = RECORD - len(begun)
            begun += left[:missing]
            left = left[missing:]
            if len(begun) < RECORD:
                continue
            yield memoryview(begun)
            begun = bytearray()
        whole = len(left) - len(left) % RECORD
        if whole:
            yield left[:whole]
        begun += left[whole:]
    if begun:
        yield memoryview(begun)

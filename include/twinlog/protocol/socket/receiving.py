"""Fill buffers from a socket with few wake-ups; wake-ups are a large part of the cost of a large answer."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Final

GATHERED: Final = 256 * 1024
"""Bytes that the kernel gathers before it wakes us, as long as more are sure to come (SO_RCVLOWAT).

The kernel doubles its receive buffer to hold them, and gathers fewer if its limits (tcp_rmem) are lower.
"""


class Receiver:
    """Read from a blocking socket: over TLS one TLS record at a time, over plain TCP everything asked for at once.

    `early` holds bytes that were taken before anything asked for them.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.early = bytearray()
        encrypted = isinstance(connected, ssl.SSLSocket)
        self._flags = 0 if encrypted else socket.MSG_WAITALL
        self._early_flags = 0 if encrypted else socket.MSG_DONTWAIT
        self._gathers = not encrypted and self._wake_at(1)

    def fill(self, target: memoryview) -> None:
        """Fill `target`, waiting as long as needed.  Raises OSError if the connection ends or times out."""
        if self._gathers and len(target) > 2 * GATHERED:
            # Not to the last byte: no data may follow it, and then nothing would wake us.
            self._wake_at(GATHERED)
            self._fill(target[:-GATHERED])
            self._wake_at(1)
            target = target[-GATHERED:]
        self._fill(target)

    def _fill(self, target: memoryview) -> None:
        at = min(len(target), len(self.early))
        if at:
            target[:at] = self.early[:at]
            del self.early[:at]
        while at < len(target):
            got = self._socket.recv_into(target[at:], 0, self._flags)
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            at += got

    def take_early(self) -> None:
        """Take the bytes that have arrived, without waiting.  A TLS socket must be non-blocking during the call.

        Raises OSError if the connection has ended.
        """
        with suppress(ssl.SSLWantReadError, BlockingIOError):
            while piece := self._socket.recv(GATHERED, self._early_flags):
                self.early += piece
            raise ConnectionResetError("the broker closed the connection")

    def _wake_at(self, size: int) -> bool:
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        except OSError:
            return False  # a system without it
        return True

"""Fill buffers from a socket with few wake-ups: what a wake-up costs is a good part of what a large answer costs."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Final

GATHERED: Final = 256 * 1024
"""Bytes the kernel gathers before it wakes us while more are sure to come (SO_RCVLOWAT).

It doubles its receive buffer to hold them, and gathers less where its limits (tcp_rmem) are lower.
"""


class Receiver:
    """Reads from a blocking socket.  Of TLS it reads what each record brings, of TCP all that was asked for.

    `early` is what was taken before anybody asked for it.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.early = bytearray()
        encrypted = isinstance(connected, ssl.SSLSocket)
        self._flags = 0 if encrypted else socket.MSG_WAITALL
        self._early_flags = 0 if encrypted else socket.MSG_DONTWAIT
        self._gathers = not encrypted and self._wake_at(1)

    def fill(self, target: memoryview) -> None:
        """Fill `target`, waiting for as long as that takes.  Raises OSError when the connection ends or times out."""
        if self._gathers and len(target) > 2 * GATHERED:
            # Not to the last byte: behind it nothing may come, and so nothing would wake us.
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
        """Take what has come, without waiting; a TLS socket must not be a blocking one meanwhile.

        Raises OSError when the connection has ended.
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

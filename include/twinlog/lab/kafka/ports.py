"""Find ports for servers: free ones given to no other process of this machine, or one clear line if one is taken."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator

from twinlog.errors import UsageError

_FIRST, _LAST = 20_000, 32_000
"""Below Linux's ephemeral range: no outgoing connection takes a port between choice and bind."""

_BLOCK = 50
"""As many ports are claimed at once; the first of them stays bound as long as this process lives."""

_claims: list[socket.socket] = []
_drawing = threading.Lock()


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Say whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java's server sockets do: a port whose last connections linger in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_ports() -> Iterator[int]:
    """Yield free ports, none twice in this process, and none that another process was given that still lives.

    A server that is started again finds its port free: nobody else chose it meanwhile.
    """
    while True:
        with _drawing:
            port = next(_ours)
        yield port


def free_row(count: int) -> range:
    """Return `count` free ports in a row, given to nobody else."""
    row = range(0)
    ports = free_ports()
    while len(row) < count:
        port = next(ports)
        row = range(row.start, port + 1) if row and port == row.stop else range(port, port + 1)
    return row


def _claimed() -> Iterator[int]:
    """Yield the free ports of one block after the other, each claimed for the life of this process."""
    blocks = list(range(_FIRST, _LAST, _BLOCK))
    random.shuffle(blocks)
    for first in blocks:
        # Without SO_REUSEADDR: so nobody else can bind it, though nobody listens.
        claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            claim.bind(("127.0.0.1", first))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        yield from (port for port in range(first + 1, first + _BLOCK) if is_free(port))


_ours = _claimed()


def ports_from(first: int) -> Iterator[int]:
    """Yield `first` and its successors.  Raises UsageError (code `port-taken`) if one of them is not free."""
    for port in range(first, 65_536):
        require_free(port)
        yield port


def require_free(port: int) -> None:
    """Raise UsageError (code `port-taken`) unless a server could listen on `port` now."""
    if not is_free(port):
        hint = "stop what listens there, or choose another port"
        raise UsageError(f"port {port} is taken", hint=hint, code="port-taken", port=port)

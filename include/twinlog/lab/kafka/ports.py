"""Find ports for brokers: free ones outside the kernel's range, or one clear line if a port is taken."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

from twinlog.errors import UsageError

_FIRST, _LAST = 20_000, 32_000
"""Below Linux's ephemeral range: no outgoing connection takes a port between choice and bind."""


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
    """Yield free ports in random order, none twice."""
    candidates = list(range(_FIRST, _LAST))
    random.shuffle(candidates)
    return (port for port in candidates if is_free(port))


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

"""A broker of our own that only knows ApiVersions: who connects to it is greeted, and no more."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

TODAY = {0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 10: (0, 6), 22: (0, 6), 24: (0, 5), 26: (0, 5)}


@contextmanager
def broker(offers: Mapping[int, tuple[int, int]] = TODAY, port: int = 0) -> Iterator[int]:
    """A broker that answers one ApiVersions v0 request; gives its port."""
    with closing(socket.create_server(("127.0.0.1", port))) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                (size,) = struct.unpack(">i", connection.recv(4))
                request = connection.recv(size)
                keys = b"".join(struct.pack(">hhh", key, *range_) for key, range_ in offers.items())
                body = request[4:8] + struct.pack(">hi", 0, len(offers)) + keys
                connection.sendall(struct.pack(">i", len(body)) + body)
                connection.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()

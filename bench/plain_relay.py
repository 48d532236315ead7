"""Measure the bound: bytes per CPU-second of a process that only passes them from one socket to another.

One process sends from a file as a broker does (sendfile), one receives and discards; the one between is measured.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import time

FILE_BYTES = 64 << 20
BUFFERS = (256 << 10, 1 << 20, 8 << 20)


def bytes_per_cpu_s(total: int = 2 << 30) -> dict[int, float]:
    """Return the bytes per CPU-second of the process between, by the size of its buffer."""
    return {size: _measure(total, size) for size in BUFFERS}


def _measure(total: int, size: int) -> float:
    context = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as front, socket.create_server(("127.0.0.1", 0)) as back:
        helpers = [
            context.Process(target=_source, args=(front, total)),
            context.Process(target=_sink, args=(back, total)),
        ]
        for helper in helpers:
            helper.start()
        with (
            socket.create_connection(front.getsockname()) as incoming,
            socket.create_connection(back.getsockname()) as outgoing,
        ):
            buffer = memoryview(bytearray(size))
            began = time.process_time()
            left = total
            while left:
                got = incoming.recv_into(buffer[: min(size, left)], 0, socket.MSG_WAITALL)
                outgoing.sendall(buffer[:got])
                left -= got
            cpu = time.process_time() - began
            outgoing.recv(1)
        for helper in helpers:
            helper.join()
    return total / cpu


def _source(server: socket.socket, total: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(os.urandom(FILE_BYTES))
        file.flush()
        connection, _ = server.accept()
        sent = 0
        while sent < total:
            sent += os.sendfile(
                connection.fileno(), file.fileno(), sent % FILE_BYTES, min(1 << 20, total - sent)
            )
        connection.recv(1)


def _sink(server: socket.socket, total: int) -> None:
    connection, _ = server.accept()
    buffer = bytearray(1 << 20)
    while total:
        total -= connection.recv_into(buffer)
    connection.send(b"!")


if __name__ == "__main__":
    for buffer_bytes, rate in bytes_per_cpu_s().items():
        print(f"buffer {buffer_bytes >> 10:>6} KiB: {rate / 1e9:.2f} GB per CPU-second")

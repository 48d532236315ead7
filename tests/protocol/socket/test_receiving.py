"""A buffer is filled with exactly its bytes, however they come."""

from __future__ import annotations

import os
import random
import socket
import threading
from contextlib import closing

import pytest

from twinlog.protocol.socket.connection import _block_for
from twinlog.protocol.socket.socket_io import GATHERED, Receiver


def pair() -> tuple[socket.socket, socket.socket]:
    """A TCP connection of this process with itself: SO_RCVLOWAT is about TCP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
        return here, there


@pytest.mark.parametrize(
    "size", [1, GATHERED, 2 * GATHERED, 2 * GATHERED + 1, 3 * GATHERED - 1, 20 * GATHERED]
)
@pytest.mark.parametrize("piece", [1 << 24, 70_000, GATHERED + 1])
def test_the_bytes_asked_for_and_no_others(size: int, piece: int) -> None:
    """In one go or in pieces, two buffers behind one another; nothing comes behind the last byte."""
    sent = os.urandom(2 * size)
    here, there = pair()

    def send() -> None:
        for at in range(0, len(sent), piece):
            there.sendall(sent[at : at + piece])

    with closing(here), closing(there):
        thread = threading.Thread(target=send)
        thread.start()
        receiver = Receiver(here)
        buffers = bytearray(size), bytearray(size)
        for buffer in buffers:
            receiver.fill(memoryview(buffer))
        thread.join()
    assert sent == buffers[0] + buffers[1]


@pytest.mark.parametrize("part", [0, 5, GATHERED - 1, 3 * GATHERED])
def test_an_end_is_an_error_wherever_it_comes(part: int) -> None:
    """Not a wait for what will never come."""
    here, there = pair()
    with closing(here):
        thread = threading.Thread(target=lambda: (there.sendall(bytes(part)), there.close()))
        thread.start()
        with pytest.raises(OSError, match="closed the connection"):
            Receiver(here).fill(memoryview(bytearray(8 * GATHERED)))
        thread.join()


def test_silence_is_a_time_out() -> None:
    """By the socket's own patience, also with part of an answer there."""
    here, there = pair()
    with closing(here), closing(there):
        _block_for(here, 300)
        there.sendall(bytes(random.randrange(GATHERED)))
        with pytest.raises(BlockingIOError):
            Receiver(here).fill(memoryview(bytearray(8 * GATHERED)))

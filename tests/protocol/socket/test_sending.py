"""What is sent arrives in order and whole, also when it is sent behind the caller's back."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from test_receiving import pair

from twinlog.lab.kafka.certificates import Certificates, make_certificates
from twinlog.protocol.socket.connection import _block_for
from twinlog.protocol.socket.encryption import Encryption
from twinlog.protocol.socket.socket_io import LARGE, Receiver, Sender


def test_large_and_small_writes_arrive_in_their_order() -> None:
    """A small write waits for the large one before it, though that is on its way behind the caller's back."""
    writes = [[[os.urandom(size) for size in sizes]] for sizes in ([8 * LARGE, 3], [10], [LARGE] * 5, [1])]
    expected = b"".join(buffer for write in writes for request in write for buffer in request)
    here, there = pair()
    with closing(here), closing(there):
        got = bytearray(len(expected))
        thread = threading.Thread(target=lambda: there.recv_into(got, 0, socket.MSG_WAITALL))
        thread.start()
        sender = Sender(here, Receiver(here))
        for write in writes:
            sender.send(write, write_behind=True)
        sender.flush()
        thread.join()
        sender.close()
    assert expected == got


def test_more_buffers_than_the_kernel_takes_at_once() -> None:
    """All of them arrive."""
    buffers = [os.urandom(3) for _ in range(2500)]
    here, there = pair()
    with closing(here), closing(there):
        Sender(here, Receiver(here)).send([buffers])
        assert b"".join(buffers) == there.recv(7500, socket.MSG_WAITALL)


def test_a_large_write_returns_before_anybody_reads_it() -> None:
    """And `flush` only when it was taken."""
    here, there = pair()
    with closing(here), closing(there):
        sender = Sender(here, Receiver(here))
        sender.send([[bytes(32 * LARGE)]], write_behind=True)
        reader = threading.Timer(0.2, lambda: there.recv_into(bytearray(32 * LARGE), 0, socket.MSG_WAITALL))
        reader.start()
        began = time.monotonic()
        sender.flush()
        assert time.monotonic() - began > 0.1
        reader.join()
        sender.close()


def test_its_failure_is_raised_by_the_next_call() -> None:
    """Not lost with the thread."""
    here, there = pair()
    with closing(here):
        sender = Sender(here, Receiver(here))
        sender.send([[bytes(32 * LARGE)]], write_behind=True)
        there.close()
        with pytest.raises(OSError, match=r"reset|pipe"):
            sender.send([[b"more"]])
        sender.close()


def test_a_target_that_reads_no_more_is_a_time_out() -> None:
    """By the socket's own patience."""
    here, there = pair()
    with closing(here), closing(there):
        _block_for(here, 300)
        sender = Sender(here, Receiver(here))
        sender.send([[bytes(32 * LARGE)]], write_behind=True)
        with pytest.raises(BlockingIOError):
            sender.flush()
        sender.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_closing_ends_a_write_that_nobody_reads(encrypted: bool, tmp_path: Path) -> None:
    """Without waiting for the patience of the socket, however often it is tried."""
    context = server_context(make_certificates(tmp_path)) if encrypted else None
    for _ in range(10):
        encryption = None
        here, there = pair()
        if context is not None:
            encryption, there = over_tls(here, there, context)
        with closing(there):
            _block_for(here, 30_000)
            sender = Sender(here, Receiver(here, encryption), encryption)
            before = set(threading.enumerate())
            sender.send([[bytes(32 * LARGE)]], write_behind=True)
            # Taken now: it may have ended before `close` returns.
            (writer,) = set(threading.enumerate()) - before
            threading.Event().wait(0.1)  # until it stands
            began = time.monotonic()
            sender.close()
            here.close()
            writer.join(5)
            assert (writer.is_alive(), time.monotonic() - began < 5) == (False, True)


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """What a broker at 127.0.0.1 proves itself with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    return context


def over_tls(
    here: socket.socket, there: socket.socket, context: ssl.SSLContext
) -> tuple[Encryption, ssl.SSLSocket]:
    """Both ends of a connection after the handshake: ours, and theirs, which is Python's own."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname, ours.verify_mode = False, ssl.CERT_NONE
    encryption = Encryption(ours, "localhost")
    with ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(context.wrap_socket, there, server_side=True)
        encryption.shake_hands(here)
        return encryption, theirs.result()

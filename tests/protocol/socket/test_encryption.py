"""Over TLS the same bytes arrive, however they are cut, whoever reads and writes at once, and whatever ends it."""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest
from test_receiving import pair
from test_sending import over_tls, server_context

from twinlog.lab.kafka.certificates import make_certificates
from twinlog.protocol.socket.connection import _block_for
from twinlog.protocol.socket.encryption import RECORD, Encryption
from twinlog.protocol.socket.socket_io import GATHERED, LARGE, Receiver, Sender

SIZES = [1, 61, RECORD - 1, RECORD, RECORD + 1, 3 * RECORD, 61, 61, 10 * RECORD + 7, 0, 5]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """Of a broker."""
    return server_context(make_certificates(tmp_path_factory.mktemp("certificates")))


@pytest.fixture
def ends(context: ssl.SSLContext) -> Iterator[tuple[socket.socket, Encryption, ssl.SSLSocket]]:
    """Our socket, what encrypts it, and the other end."""
    here, there = pair()
    encryption, theirs = over_tls(here, there, context)
    _block_for(here, 2000)
    with closing(here), closing(theirs):
        yield here, encryption, theirs


def read(theirs: ssl.SSLSocket, size: int) -> bytes:
    """So many bytes of what the other end gets."""
    got = bytearray()
    while len(got) < size:
        got += theirs.recv(size - len(got))
    return bytes(got)


def test_buffers_of_any_size_arrive_in_their_order(
    ends: tuple[socket.socket, Encryption, ssl.SSLSocket],
) -> None:
    """Also those that fill a record only together with others."""
    here, encryption, theirs = ends
    buffers = [os.urandom(size) for size in SIZES * 20]
    random.Random(1).shuffle(buffers)
    sender = Sender(here, Receiver(here, encryption), encryption)
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(read, theirs, sum(map(len, buffers)))
        sender.send([buffers[:100], buffers[100:]])
        assert b"".join(buffers) == got.result()


def test_small_buffers_share_a_record(ends: tuple[socket.socket, Encryption, ssl.SSLSocket]) -> None:
    """A thousand headers of 61 bytes are four records, not a thousand."""
    _, encryption, _ = ends
    encrypted = b"".join(encryption.encrypt([os.urandom(61)] * 1000))
    assert 61_000 < len(encrypted) < 61_000 + 4 * 64


@pytest.mark.parametrize("size", [1, RECORD, 2 * GATHERED + 1, 20 * GATHERED])
@pytest.mark.parametrize("piece", [1 << 24, 70_000])
def test_the_bytes_asked_for_and_no_others(
    ends: tuple[socket.socket, Encryption, ssl.SSLSocket], size: int, piece: int
) -> None:
    """Two buffers behind one another, and nothing comes behind the last byte."""
    here, encryption, theirs = ends
    sent = os.urandom(2 * size)
    receiver = Receiver(here, encryption)

    def send() -> None:
        for at in range(0, len(sent), piece):
            theirs.sendall(sent[at : at + piece])

    thread = threading.Thread(target=send)
    thread.start()
    buffers = bytearray(size), bytearray(size)
    for buffer in buffers:
        receiver.fill(memoryview(buffer))
    thread.join()
    assert (sent, False) == (buffers[0] + buffers[1], receiver.early)


@pytest.mark.parametrize("first", [8, 114_746, 3 * RECORD, GATHERED])
@pytest.mark.parametrize("second", [10, 100_000, 258_000, GATHERED + 1])
def test_an_answer_that_comes_in_pieces_is_taken_as_soon_as_it_is_there(
    ends: tuple[socket.socket, Encryption, ssl.SSLSocket], first: int, second: int
) -> None:
    """A call that has taken a part of what it asks for is woken by the rest, although no GATHERED bytes are left."""
    here, encryption, theirs = ends
    sent = os.urandom(2 * GATHERED + 181)
    receiver = Receiver(here, encryption)
    head, rest = bytearray(8), bytearray(len(sent) - 8)
    with ThreadPoolExecutor(1) as pool:
        # Until its window is open, the kernel wakes us early.
        before = pool.submit(theirs.sendall, bytes(16 * GATHERED))
        receiver.fill(memoryview(bytearray(16 * GATHERED)))
        before.result()
        theirs.sendall(sent[:first])
        receiver.fill(memoryview(head))
        theirs.sendall(sent[first : first + second])
        filled = pool.submit(receiver.fill, memoryview(rest))
        time.sleep(0.05)  # it has taken the second piece
        theirs.sendall(sent[first + second :])
        filled.result(1)
    assert sent == head + rest


def test_one_thread_reads_while_another_writes(
    ends: tuple[socket.socket, Encryption, ssl.SSLSocket],
) -> None:
    """Each way 16 MiB at once; the other end echoes, so that what was sent is what comes."""
    here, encryption, theirs = ends
    sent = os.urandom(16 * LARGE)
    receiver = Receiver(here, encryption)
    sender = Sender(here, receiver, encryption)

    def echo() -> None:
        left = len(sent)
        while left:
            piece = theirs.recv(100_000)
            theirs.sendall(piece)
            left -= len(piece)

    thread = threading.Thread(target=echo)
    thread.start()
    sender.send([[sent]], write_behind=True)
    got = bytearray(len(sent))
    receiver.fill(memoryview(got))
    sender.flush()
    thread.join()
    sender.close()
    assert sent == got


@pytest.mark.parametrize("cut", [0, 5, 100, 3 * RECORD, 8 * GATHERED - 1])
def test_an_end_within_a_record_is_an_error(context: ssl.SSLContext, cut: int) -> None:
    """A proxy that passes on `cut` bytes of the encrypted answer and closes: no byte is made up."""
    here, middle = pair()
    out, there = pair()
    with closing(here), closing(middle), closing(out), closing(there):

        def pump(source: socket.socket, target: socket.socket, budget: list[float]) -> None:
            try:
                while budget[0] > 0 and (data := source.recv(min(65_536, int(min(budget[0], 1 << 20))))):
                    budget[0] -= len(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

        allowed = [float("inf")]
        for source, target, budget in ((middle, out, [float("inf")]), (out, middle, allowed)):
            threading.Thread(target=pump, args=(source, target, budget), daemon=True).start()
        encryption, theirs = over_tls(here, there, context)
        receiver = Receiver(here, encryption)
        theirs.sendall(b"!")
        receiver.fill(memoryview(bytearray(1)))
        allowed[0] = cut + 0.5
        threading.Thread(target=swallow, args=(theirs, bytes(8 * GATHERED)), daemon=True).start()
        with pytest.raises(OSError, match=r"closed the connection|reset"):
            receiver.fill(memoryview(bytearray(8 * GATHERED)))


def swallow(theirs: ssl.SSLSocket, data: bytes) -> None:
    """Send to one who may be gone."""
    with suppress(OSError):
        theirs.sendall(data)


def test_a_changed_byte_is_an_error(ends: tuple[socket.socket, Encryption, ssl.SSLSocket]) -> None:
    """Nothing of its record is given out."""
    here, encryption, theirs = ends
    theirs.sendall(b"x" * 100)
    encrypted = bytearray(here.recv(65_536))
    encrypted[-1] ^= 1
    encryption.received(bytes(encrypted))
    with pytest.raises(ssl.SSLError, match=r"(?i)mac|decrypt"):
        encryption.decrypt(memoryview(bytearray(100)))


def test_an_announced_end_is_an_error(ends: tuple[socket.socket, Encryption, ssl.SSLSocket]) -> None:
    """TLS's close_notify."""
    here, encryption, theirs = ends
    theirs.settimeout(0)
    with pytest.raises(ssl.SSLWantReadError):
        theirs.unwrap()
    with pytest.raises(ConnectionResetError):
        Receiver(here, encryption).fill(memoryview(bytearray(1)))


def test_silence_is_a_time_out(ends: tuple[socket.socket, Encryption, ssl.SSLSocket]) -> None:
    """By the socket's own patience, with part of an answer there."""
    here, encryption, theirs = ends
    _block_for(here, 300)
    theirs.sendall(bytes(1000))
    with pytest.raises(BlockingIOError):
        Receiver(here, encryption).fill(memoryview(bytearray(8 * GATHERED)))


def test_a_listener_without_tls_ends_the_handshake(tmp_path: Path) -> None:
    """As an error, not a wait."""
    here, there = pair()
    with closing(here):
        there.close()
        with pytest.raises(OSError, match=r"EOF|reset|pipe"):
            Encryption(ssl.create_default_context(), "localhost").shake_hands(here)

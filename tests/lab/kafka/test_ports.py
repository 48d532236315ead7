"""Ports for brokers."""

from __future__ import annotations

import socket
from itertools import islice

import pytest

from twinlog.errors import UsageError
from twinlog.lab.kafka.ports import free_ports, is_free, ports_from


def test_free_ports_are_free_and_none_comes_twice():
    """Every port on offer can be bound, and all differ."""
    ports = list(islice(free_ports(), 50))
    assert ([True] * 50, 50) == ([is_free(port) for port in ports], len(set(ports)))


def test_a_row_of_ports_stops_at_a_taken_one():
    """The error names the port that is taken, also when it is not the first of the row."""
    with socket.create_server(("127.0.0.1", next(free_ports()))) as listener:
        taken = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {taken} is taken") as refused:
            list(islice(ports_from(taken), 2))
    assert {"port": taken} == refused.value.data
    assert [taken, taken + 1] == list(islice(ports_from(taken), 2))

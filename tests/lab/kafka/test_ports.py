"""Ports for brokers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from itertools import islice

import pytest

from twinlog.errors import UsageError
from twinlog.lab.kafka.ports import free_ports, free_row, is_free, ports_from


def test_free_ports_are_free_and_none_comes_twice():
    """Every port on offer can be bound, and all differ."""
    ports = list(islice(free_ports(), 50))
    assert ([True] * 50, 50) == ([is_free(port) for port in ports], len(set(ports)))


def test_no_port_is_given_twice():
    """Neither in this process, by whatever call, nor in another that runs meanwhile."""
    script = (
        "import json\nfrom itertools import islice\nfrom twinlog.lab.kafka.ports import free_ports\n"
        "print(json.dumps(list(islice(free_ports(), 2_000))), flush=True)\ninput()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        theirs = json.loads(other.stdout.readline())
        ours = [*islice(free_ports(), 1_000), *free_row(6), *islice(free_ports(), 1_000)]
        other.communicate("\n")
    assert len(theirs) + len(ours) == len({*theirs, *ours})


def test_free_ports_in_a_row():
    """As many as asked for, each the successor of the one before."""
    row = free_row(6)
    assert [True] * 6 == [is_free(port) for port in row]
    assert list(row) == list(range(row[0], row[0] + 6))


def test_a_row_of_ports_stops_at_a_taken_one():
    """The error names the port that is taken, also when it is not the first of the row."""
    with socket.create_server(("127.0.0.1", next(free_ports()))) as listener:
        taken = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {taken} is taken") as refused:
            list(islice(ports_from(taken), 2))
    assert {"port": taken} == refused.value.data
    assert [taken, taken + 1] == list(islice(ports_from(taken), 2))

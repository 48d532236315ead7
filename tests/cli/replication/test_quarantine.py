"""`twinlog topics quarantine`: what it says, and with which exit code; the work itself is tried on real brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.quarantine import read
from twinlog.quarantine.read import Kept, Quarantined


@pytest.fixture
def ask(world, capsys) -> Callable[..., tuple[int, Any, str]]:
    """Run the command over a flow that has run once; its code, JSON and lines."""
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()

    def run(*words: str) -> tuple[int, Any, str]:
        code = main(["topics", "quarantine", *words, "--config", str(world.file), "--output", "json"])
        said = capsys.readouterr()
        return code, json.loads(said.out or "null"), said.err

    return run


def test_the_list_says_what_where_why_and_since_when(ask, monkeypatch) -> None:
    """As one document."""
    held = Quarantined("orders", "id", 0, 5, "too large", Kept.HELD, place="q-0 at 3", size=9, at_ms=1_000)
    monkeypatch.setattr(read, "listed", lambda flow, clusters: (held,))
    code, document, _ = ask()
    (row,) = document["records"]
    assert (0, "orders", 5, "too large", "held", "q-0 at 3", 1_000) == (
        code,
        *(row[name] for name in ("topic", "offset", "reason", "state", "place", "at_ms")),
    )

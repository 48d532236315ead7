"""`twinlog topics forget`, over clusters in memory."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord


@pytest.fixture
def ask(world, monkeypatch, capsys) -> Callable[..., tuple[int, Any, str]]:
    """Run the command over a world in which `orders` was seen once; return its code, its JSON, and what it said."""

    @dataclass
    class Owned:
        state: Any
        progress: Any

        def write(self, records: list[StateRecord]) -> None:
            for it in records:
                world.target.append(TopicPartition(it.topic, it.partition), key=it.key, value=it.value)

    def taken(flow, clusters, why, run_id=None):
        return Owned(state_topics(flow, clusters), {})

    monkeypatch.setattr(Ownership, "taken", taken)
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()

    def run(*words: str) -> tuple[int, Any, str]:
        code = main([
            "topics",
            "forget",
            "--topic",
            "orders",
            *words,
            "--config",
            str(world.file),
            "--output",
            "json",
        ])
        said = capsys.readouterr()
        return code, json.loads(said.out or "null"), said.err

    return run


def lose(world) -> None:
    """Delete the topic on both sides."""
    del world.source.topics["orders"], world.target.topics["A.orders"]


def test_it_tells_what_it_has_dropped(world, ask) -> None:
    """One JSON document; asked again it knows of no such topic, which is wrong usage."""
    lose(world)
    promised = ask("--dry-run")[1]
    code, done, _ = ask("--yes")
    assert (0, "A->B", "orders", ["A.orders"], False) == (
        code,
        *(done[name] for name in ("flow", "topic", "remote_topics", "dry_run")),
    )
    assert done["dropped"]["incarnation"] == 1
    assert promised == {**done, "dry_run": True}
    code, refused, said = ask("--yes")
    assert (2, "usage", True) == (code, refused["error"]["code"], "knows nothing of topic orders" in said)


def test_what_a_side_still_has_is_refused(world, ask) -> None:
    """The answer is no."""
    code, refused, said = ask("--yes")
    assert (1, "forget-refused", True) == (code, refused["error"]["code"], "A has it" in said)


def test_without_a_terminal_it_names_its_option(world, ask, monkeypatch) -> None:
    """And has done nothing."""
    lose(world)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, refused, said = ask()
    assert (2, "usage", True) == (code, refused["error"]["code"], "--yes" in said)
    assert ask("--dry-run")[1]["dropped"]["incarnation"] == 1

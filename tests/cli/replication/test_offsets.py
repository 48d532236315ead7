"""`twinlog topics offsets`, over clusters in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord


@pytest.fixture
def ask(world, monkeypatch, capsys) -> Callable[..., tuple[int, Any, str]]:
    """Run the command over a world in which `orders`, of three records, was seen once; its code, JSON and lines."""

    @dataclass
    class Owned:
        state: Any
        progress: dict[TopicPartition, int] = field(default_factory=dict)
        run_id: str = "run"
        grant: Any = field(default_factory=lambda: SimpleNamespace(copy_ends={}))

        def write(self, records: list[StateRecord]) -> None:
            for it in records:
                world.target.append(TopicPartition(it.topic, it.partition), key=it.key, value=it.value)

    monkeypatch.setattr(Ownership, "taken", lambda flow, clusters, why: Owned(state_topics(flow, clusters)))
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    for n in range(3):
        world.source.append(TopicPartition("orders", 0), key=b"k", value=b"v", timestamp=n)
    capsys.readouterr()

    def run(*words: str) -> tuple[int, Any, str]:
        code = main([*words, "--config", str(world.file), "--output", "json"])
        said = capsys.readouterr()
        return code, json.loads(said.out or "null"), said.err

    return run


ALTER = ("topics", "offsets", "--topic", "orders", "--partition", "0", "--to", "latest")


def test_a_move_is_shown_first_and_made_when_asked_for(ask) -> None:
    """Without --execute nothing changes, paused or not; with it a flow that may copy is refused (exit code 1)."""
    code, seen, said = ask(*ALTER)
    assert (0, True, False, 3) == (code, seen["dry_run"], seen["changed"], seen["move"]["to_offset"])
    assert "pause it first: twinlog pause --topic orders" in said
    code, refused, _ = ask(*ALTER, "--reason", "bad", "--execute")
    assert (1, "not-paused") == (code, refused["error"]["code"])
    ask("pause", "--topic", "orders", "--reason", "bad records")
    assert "nothing was changed: --execute does it" in ask(*ALTER)[2]
    assert 2 == ask(*ALTER, "--execute")[0]
    code, done, said = ask(*ALTER, "--reason", "bad", "--execute")
    assert (0, True, "offsets-altered") == (code, done["changed"], done["gaps"][0]["cause"])
    assert "orders-0: never copied are upstream offsets 0 to 2, at most 3 records" in said


def test_where_the_copies_stand_is_one_document(ask) -> None:
    """Per partition: next offset, log, map, what is never copied, and why it does not go on."""
    ask("pause", "--topic", "orders", "--reason", "bad records")
    ask(*ALTER, "--reason", "bad", "--execute")
    code, shown, _ = ask("topics", "offsets")
    (partition,) = shown["partitions"]
    assert (0, 3, 3, 0, 3, 3) == (
        code,
        *(partition[name] for name in ("next_offset", "end", "lag", "map_end", "never_copied")),
    )
    assert partition["why"].startswith("paused by ")
    assert [(0, 3, "bad")] == [(it["from_offset"], it["to_offset"], it["reason"]) for it in shown["altered"]]

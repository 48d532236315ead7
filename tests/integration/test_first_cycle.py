"""What people do first, on real brokers: one `run --once`, an audit, the gate.

A source of its own, because heartbeats topics of other tests must not be there; about half a minute, a cold Spark
included.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from lab import Seen, configure, create_topic, produce
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.formats.mm2.records import Heartbeat
from twinlog.lab.kafka.broker import EmbeddedKafka

pytestmark = pytest.mark.spark

Command = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def aliases() -> tuple[str, str, str]:
    """Names of source, target and a cluster without any flow, that no other test uses."""
    return tuple(f"{side}{uuid.uuid4().hex[:4]}" for side in ("east", "west", "north"))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def first_cycle(
    tmp_path_factory: pytest.TempPathFactory, cluster_b: Any, cluster_c: Any, aliases: tuple[str, str, str]
) -> dict[str, tuple[int, dict[str, Any]]]:
    """The answers of all three commands, and the beats that the third cluster holds."""
    folder = tmp_path_factory.mktemp("first-cycle")
    east, west, north = aliases
    with EmbeddedKafka("first-cycle", folder / "kafka") as source:
        clusters = {east: source, west: cluster_b, north: cluster_c}
        factors = {
            f"{topic}__topic__replication__factor": "1"
            for topic in ("offset-syncs", "checkpoints", "heartbeats")
        }
        file = configure(folder, clusters, [f"{east}->{west}"], topics="orders", groups="nobody", **factors)
        create_topic(source, "orders", 2)
        produce(source, "orders", [Seen(None, b"%d" % it, int(time.time() * 1000)) for it in range(10)])

        def command(*words: str) -> tuple[int, dict[str, Any]]:
            out = StringIO()
            with redirect_stdout(out):
                code = main([*words, "--config", str(file), "--output", "json"])
            return code, json.loads(out.getvalue())

        answers = {
            "run": command("run", "--once"),
            "audit": command("audit"),
            "gate": command("gate"),
        }
        pair = next(iter(load(file).enabled_flows)).other_heartbeats[0]
        with open_clusters(pair) as opened:
            answers["beats"] = (
                0,
                {
                    parsed.source_alias: parsed.target_alias
                    for key, value in opened.target.latest("heartbeats").items()
                    if (parsed := Heartbeat.parse(key, value or b"")).target_alias == north
                },
            )
        return answers


def test_the_first_cycle_copies_heartbeats_too(first_cycle: Any, aliases: tuple[str, str, str]) -> None:
    """The source's heartbeats topic is made, beaten into and copied at once."""
    code, document = first_cycle["run"]
    topics = {
        topic["remote_topic"]: sum(part["copied_records"] for part in topic["partitions"])
        for topic in document["flows"][0]["topics"]
    }
    assert (0, {f"{aliases[0]}.heartbeats": 1, f"{aliases[0]}.orders": 10}) == (code, topics)


def test_the_first_gate_fails_for_nothing_that_waits_for_another_cycle(first_cycle: Any) -> None:
    """After one cycle and one audit, what forbids a planned failover is what a person has to do: stop producers."""
    assert 0 == first_cycle["audit"][0]
    failed = [
        (check["name"], check["message"])
        for check in first_cycle["gate"][1]["checks"]
        if not check["passed"] and check["severity"] == "critical"
    ]
    assert [] == [it for it in failed if "heartbeats" in it[1]]
    assert [] == failed


def test_pairs_without_a_flow_beat_on_a_third_cluster(
    first_cycle: Any, aliases: tuple[str, str, str]
) -> None:
    """As MM2 does, for both pairs that lead there."""
    east, west, north = aliases
    assert {east: north, west: north} == first_cycle["beats"][1]

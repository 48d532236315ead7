"""A planned failover while a broker dies that alone has a partition: what cannot be looked at is never nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from test_failover import Pair, numbered, numbers_in, start_again, steps_of

from lab import produce
from twinlog.judge.check import Mode
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.recovery.steps.world import Answer

pytestmark = pytest.mark.long

STATE_LIVES_ON = {"offset__storage__replication__factor": "3"}


def leader(cluster: EmbeddedKafka, topic: str, partition: int) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_lone_leader_dies_while_a_person_is_asked(side: str, tmp_path: Path) -> None:
    """What only it has of A, or of the copy, cannot be looked at: refused until it is back, and then all is there."""
    with (
        EmbeddedKafka("east", tmp_path / "a", nodes=3 if side == "source" else 1) as a,
        EmbeddedKafka("west", tmp_path / "b", nodes=3 if side == "target" else 1) as b,
    ):
        pair = Pair(tmp_path, a, b, **(STATE_LIVES_ON if side == "target" else {}))
        produce(a, "orders", numbered(0, 20), 1)
        pair.cycle()
        pair.audit()
        hurt, topic = (a, "orders") if side == "source" else (b, pair.remote)
        written = 20

        def asked(_: str) -> Answer:
            nonlocal written
            if side == "source":
                produce(a, "orders", numbered(20, 70), 1)
                written = 70
            hurt.kill(leader(hurt, topic, 1))
            return Answer.YES

        report = pair.fail_over(Mode.PLANNED, asked)
        assert "refused" == report.state.value, steps_of(report)
        assert "one partition of orders could not be looked at" in steps_of(report)
        _, dry = pair.command("failover", "--mode", "planned", "--dry-run")
        (drain,) = (it["message"] for it in dry["steps"] if it["name"] == "drain")
        assert drain.startswith("at least 0 records are not on"), drain
        assert drain.endswith("one partition of orders could not be looked at"), drain
        code, again = pair.command("failover", "--mode", "planned", "--yes")
        assert "promoted" != again["state"] and 0 != code
        start_again(hurt)
        report = pair.fail_over(Mode.PLANNED)
        assert "promoted" == report.state.value, steps_of(report)
        assert list(range(written)) == numbers_in(b, pair.remote)

"""A principal that may write to the flow's state on B, and to nothing else there, forges what the ledger remembers."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from test_failover import Pair, administrator, numbered

from lab import create_topic, produce, topic_names
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.metadata import Profile
from twinlog.formats.ledger.entry import LEDGER_PARTITION, LedgerEntry
from twinlog.formats.ledger.metadata import AclGrant, AclsAdded
from twinlog.formats.ledger.recovery import PromotionPlan, RecoveryRun, RunState
from twinlog.formats.ledger.topics import Rebuild, RebuildPhase
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.metadata.plan_file import plan_document
from twinlog.metadata.values import AclChange, MetadataPlan
from twinlog.state.ledger import read_ledger

pytestmark = pytest.mark.long

PAYROLL = AclBinding("TOPIC", "LITERAL", "payroll", "User:ann", "*", "READ", "ALLOW")
YEAR_MS = 365 * 86_400_000


def forge(pair: Pair, *entries: LedgerEntry) -> None:
    """Write records to the ledger as User:mallory."""
    producer = Producer({
        "bootstrap.servers": pair.target.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mallory",
        "sasl.password": "wonder",
    })
    for it in entries:
        producer.produce(pair.flow.ledger_topic, key=it.key(), value=it.value(), partition=LEDGER_PARTITION)
    assert 0 == producer.flush(30)


def test_none_of_it_is_obeyed_and_each_is_said(tmp_path: Path) -> None:
    """B's own ACL and topic stay, mallory gets nothing, and a run of the year to come holds up no failover."""
    options: dict[str, Any] = {
        "listeners": ["SASL_PLAINTEXT"],
        "users": {"alice": "wonder", "mallory": "wonder"},
    }
    with (
        EmbeddedKafka("forgeA", tmp_path / "a", **options) as a,
        EmbeddedKafka("forgeB", tmp_path / "b", **options) as b,
    ):
        pair = Pair(tmp_path, a, b, user="alice")
        on_b = administrator(b)
        create_topic(b, "payroll")
        produce(a, "orders", numbered(0, 20))
        produce(b, "payroll", numbered(0, 5))
        pair.cycle()
        pair.audit()
        write = replace(PAYROLL, name=pair.flow.ledger_topic, principal="User:mallory", operation="WRITE")
        mine = [
            replace(write, principal="User:alice", operation="ALL", name=name)
            for name in ("payroll", *topic_names(b, "mm2-"))
        ]
        on_b.create_acls([PAYROLL, write, *mine]).require()
        kept = set(on_b.describe_acls())
        now = int(time.time() * 1000)
        with open_clusters(pair.flow) as clusters:
            ledger = read_ledger(pair.flow, clusters.target)
            there = on_b.describe_topics(["payroll"]).found["payroll"].topic_id
            ids = clusters.source.cluster_id(), clusters.target.cluster_id()
        life = ledger.incarnations["orders"]
        grant = replace(PAYROLL, principal="User:mallory", operation="ALL")
        plan = MetadataPlan(
            flow=pair.flow.name, profile=Profile.PROMOTED, changes=(AclChange(grant, add=True),)
        )
        rebuild = Rebuild(
            "orders", life.topic_id, "payroll", there, RebuildPhase.DELETING, "mallory", "x", now
        )
        forge(pair, rebuild)
        produce(a, "orders", numbered(20, 25))
        pair.cycle()
        _, told = pair.command("status")
        (flow,) = told["flows"]
        lag = {it["topic"]: it["lag_records"] for it in flow["topics"]}
        assert (0, ["strange-rebuild"]) == (lag["orders"], [it["code"] for it in flow["problems"]])
        code, made = pair.command("topics", "rebuild", "--topic", "orders", "--yes", "--reason", "x")
        assert (0, True) == (code, made["deleted"])
        assert "payroll" in topic_names(b, "payroll")
        pair.cycle()
        pair.audit()

        added = AclsAdded("TOPIC", "LITERAL", "payroll", (AclGrant("User:ann", "*", "READ", "ALLOW"),), now)
        forge(pair, added, PromotionPlan(now, plan_document(plan, *ids, now)))
        _, applied = pair.command("metadata", "apply")
        assert [("topic payroll", "User:ann READ")] == [
            (it["resource"], it["name"]) for it in applied["drift"] if "not revoked" in it["message"]
        ]
        assert kept <= set(on_b.describe_acls())

        a.kill()
        ahead = now + YEAR_MS
        forge(pair, RecoveryRun("run-x", "planned", RunState.OPEN, "mallory", "failover-x", ahead, ahead))
        code, report = pair.command("failover", "--mode", "source-dead", "--yes")
        assert (0, "promoted") == (code, report["state"]), report["steps"]
        grants = {it for it in on_b.describe_acls() if it.name == "payroll"}
        assert {it for it in kept if it.name == "payroll"} == grants
        (rights,) = (it["message"] for it in report["steps"] if it["name"] == "rights")
        assert "this flow makes no such change" in rights

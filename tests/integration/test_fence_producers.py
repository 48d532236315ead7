"""A planned failover from a source that lets everybody use topics without an ACL, as a user like any other.

Costs about 40 s: one broker is started.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from test_unreadable_state import administrator

from lab import Seen, ThreadRunner, commit_group, configure, create_topic, cycle, produce
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.gate.at_source import moving_topics
from twinlog.gate.evidence import Seal
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.recovery import abort, failover
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps.world import Answer, Request, Tools

USERS = {"poor": "p", "shop": "s"}


class Open:
    """A flow from such a source, and what another user may do there."""

    def __init__(self, folder: Path, source: EmbeddedKafka, target: EmbeddedKafka) -> None:
        self.source, login = source, "org.apache.kafka.common.security.plain.PlainLoginModule required"
        path = configure(
            folder,
            {"open": source.address("SASL_PLAINTEXT"), "B": target},
            ["open->B"],
            **{
                "topics": "orders",
                "groups": "billing",
                "heartbeats.replication.enabled": "false",
                "checkpoints.topic.replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
                "open.security.protocol": "SASL_PLAINTEXT",
                "open.sasl.mechanism": "PLAIN",
                "open.sasl.jaas.config": f'{login} username="poor" password="p";',
                "twinlog.gate.fence.seconds": "1",
                "twinlog.failover.wait.seconds": "5",
                "twinlog.gate.free.disk.percent": "0",
                "twinlog.gate.blocking": "source-fenced",
                "twinlog.reports.folder": str(folder / "reports"),
            },
        )
        self.flow = load(path).flows["open->B"]
        self.admin = administrator(source, "open")
        create_topic(source, "orders")
        produce(source, "orders", [Seen(b"k", b"%d" % n, int(time.time() * 1000)) for n in range(50)])
        commit_group(source, "billing", "orders", 50)
        cycle(self.flow)

    def as_shop(self, **settings: str) -> dict[str, str]:
        """Return the settings of a client of the application."""
        return {
            "bootstrap.servers": self.source.address("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "shop",
            "sasl.password": "s",
            **settings,
        }

    def read(self) -> int:
        """Count what the application reads from the beginning."""
        consumer = Consumer(self.as_shop(**{"group.id": "shop", "auto.offset.reset": "earliest"}))
        consumer.subscribe(["orders"])
        found = [it for it in consumer.consume(50, 15) if it.error() is None]
        consumer.close()
        return len(found)

    def write(self) -> str:
        """Write one record as the application; return the broker's refusal, "" if there is none."""
        errors: list[str] = []
        producer = Producer(self.as_shop(**{"message.timeout.ms": "10000"}))
        try:
            producer.produce("orders", b"more", on_delivery=lambda error, _: errors.append(error))
            producer.flush(15)
        except KafkaException as error:
            return str(error)
        return str(errors[0] or "")

    def fail_over(self, answer: Answer) -> FailoverReport:
        """Fail over in this process."""
        tools = Tools(ThreadRunner, lambda _: answer, time.sleep, Seal("mm2.properties", "sha"))
        with open_clusters(self.flow) as clusters:
            audit.run(self.flow, clusters, LocalAuditRunner())
            return failover.run(self.flow, clusters, Request("jo"), tools)


@pytest.fixture(scope="module")
def opened(cluster_b: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """The embedded brokers have allow.everyone.if.no.acl.found=true."""
    folder = tmp_path_factory.mktemp("open")
    with EmbeddedKafka("open", folder / "k", listeners=["SASL_PLAINTEXT"], users=USERS) as source:
        yield Open(folder, source, cluster_b)


def test_writing_is_denied_and_nothing_else(opened: Open) -> None:
    """The failover gets as far as the question: applications read, and none writes; an abort takes it back."""
    report = opened.fail_over(Answer.NOBODY)
    told = [f"{it.name} {it.state} {it.message}" for it in report.steps]
    assert State.WAITING is report.state, told
    assert "approve" == next(it.name.value for it in report.steps if it.state.value == "waiting"), told
    assert "TOPIC_AUTHORIZATION_FAILED" in opened.write()
    assert 50 == opened.read()
    with open_clusters(opened.flow) as clusters:
        assert () == abort.run(opened.flow, clusters, by="jo", reason="only to see").left
    time.sleep(0.5)
    assert () == opened.admin.describe_acls()
    assert "" == opened.write()


def test_a_topic_that_an_acl_hides_does_not_stand_still(opened: Open) -> None:
    """As a lone DENY WRITE does it: twinlog does not see the topic, and does not say that nobody writes to it."""
    lone = AclBinding("TOPIC", "LITERAL", "orders", "User:*", "*", "WRITE", "DENY")
    opened.admin.create_acls([lone]).require()
    time.sleep(0.5)
    try:
        with open_clusters(opened.flow) as clusters:
            moving = moving_topics(opened.flow, clusters.source, {"orders"})
        assert (set(), {"orders"}) == (set(moving.written), set(moving.unseen))
    finally:
        opened.admin.delete_acls([lone]).require()

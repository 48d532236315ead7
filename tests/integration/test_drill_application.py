"""A drill's reader with the login of an application, on a broker with its StandardAuthorizer on.  Cost: about 15 s."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_drill import seen

from lab import commit_group, create_topic, produce
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.kafka import KafkaCluster
from twinlog.config.flow.settings import FailoverSettings, FlowSettings
from twinlog.config.security.client_properties import connection_settings
from twinlog.config.security.connection import ClusterSettings
from twinlog.drill.application import read_as
from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    """A cluster where nothing is allowed that no ACL allows, with a topic and a group."""
    settings = {"allow.everyone.if.no.acl.found": "false"}
    users = {"billing": "b0"}
    with EmbeddedKafka("G", listeners=["SASL_PLAINTEXT"], users=users, settings=settings) as cluster:
        create_topic(cluster, "A.orders", 1)
        produce(cluster, "A.orders", [seen(number) for number in range(5)])
        commit_group(cluster, "billing", "A.orders", 2, 0)
        yield cluster


@pytest.mark.long
def test_an_application_reads_where_its_group_goes_on_once_it_may(
    guarded: EmbeddedKafka, flow: FlowSettings, tmp_path: Path
) -> None:
    """Each right that it lacks is named: on its group, then on its topic; nothing is committed."""
    jaas = (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="billing" password="b0";'
    )
    (tmp_path / "billing.properties").write_text(
        f"bootstrap.servers={guarded.address('SASL_PLAINTEXT')}\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={jaas}\n"
    )
    address = guarded.bootstrap_servers
    target = ClusterSettings(
        "G", address, connection_settings("G", {"bootstrap.servers": address}, client_id="t")
    )
    asking = replace(flow, target=target, failover=FailoverSettings(drill_clients=tmp_path))
    administrator = KafkaCluster(target)
    starts = {TopicPartition("A.orders", 0): 2}

    def grant(kind: str, name: str) -> None:
        acl = AclBinding(kind, "LITERAL", name, "User:billing", "*", "READ", "ALLOW")
        administrator.create_acls([acl]).require()

    with pytest.raises(ClusterRefused, match="User:billing may not READ group billing of G"):
        read_as(asking, "billing", starts)
    grant("GROUP", "billing")
    with pytest.raises(ClusterRefused, match=r"A\.orders|User:billing"):
        read_as(asking, "billing", starts)
    grant("TOPIC", "A.orders")
    assert "User:billing" == read_as(asking, "billing", starts)
    committed = administrator.committed_offsets(["billing"]).require()["billing"]
    assert 2 == committed[TopicPartition("A.orders", 0)].offset
    assert "" == read_as(asking, "another", starts)

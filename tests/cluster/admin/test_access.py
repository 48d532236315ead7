"""ACLs, quotas and topic configs, changed and read back on a real broker."""

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab import assert_soon
from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.cluster.api import Cluster
from twinlog.cluster.portions import rounds
from twinlog.cluster.values import ConfigSource, NewTopic
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import ClusterRefused
from twinlog.lab.kafka.broker import EmbeddedKafka


@pytest.fixture(scope="module")
def cluster(cluster_a: EmbeddedKafka) -> Cluster:
    host, port = cluster_a.bootstrap_servers.split(":")
    connection = ConnectionSettings("A", ((host, int(port)),))
    return Cluster(ClusterSettings("A", cluster_a.bootstrap_servers, connection))


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[str]:
    name = f"access-{uuid.uuid4().hex[:6]}"
    cluster.create_topics([NewTopic(name, 1, 1)]).require()
    yield name
    cluster.delete_topics([name])


def of_this_test(cluster: Cluster, part: str) -> set[AclBinding]:
    return {it for it in cluster.describe_acls() if part in it.name + it.principal}


@pytest.mark.integration
def test_acls_come_back_as_they_were_created(cluster: Cluster, topic: str) -> None:
    """Every type of resource, pattern, permission and operation that Kafka 4.3 has; creating twice is one ACL."""
    bindings = {
        AclBinding("TOPIC", "LITERAL", topic, "User:jo", "*", "READ", "ALLOW"),
        AclBinding("TOPIC", "PREFIXED", topic, "User:jo", "10.0.0.7", "ALL", "DENY"),
        AclBinding("GROUP", "LITERAL", topic, "User:jo", "*", "DESCRIBE", "ALLOW"),
        AclBinding("TRANSACTIONAL_ID", "PREFIXED", topic, "User:jo", "*", "TWO_PHASE_COMMIT", "ALLOW"),
        AclBinding("DELEGATION_TOKEN", "LITERAL", topic, "User:jo", "*", "DESCRIBE", "ALLOW"),
        AclBinding("USER", "LITERAL", f"User:{topic}", "User:jo", "*", "CREATE_TOKENS", "ALLOW"),
        AclBinding("CLUSTER", "LITERAL", "kafka-cluster", f"User:{topic}", "*", "IDEMPOTENT_WRITE", "ALLOW"),
    }
    assert {} == cluster.create_acls([*bindings, *bindings]).refused
    assert_soon(bindings, lambda: of_this_test(cluster, topic))

    one, *rest = sorted(bindings)
    assert {} == cluster.delete_acls([one, one]).refused
    assert_soon(set(rest), lambda: of_this_test(cluster, topic))
    cluster.delete_acls(rest).require()
    assert_soon(set(), lambda: of_this_test(cluster, topic))


@pytest.mark.integration
def test_a_refused_acl_leaves_the_others(cluster: Cluster, topic: str) -> None:
    """The broker answers one by one, and so do we."""
    good = AclBinding("TOPIC", "LITERAL", topic, "User:jo", "*", "READ", "ALLOW")
    bad = replace(good, principal="jo")  # no type
    answers = cluster.create_acls([bad, good])
    assert [good] == list(answers.found)
    assert f"would not create the ACL ALLOW jo READ on topic {topic}" in str(answers.refused[bad])
    cluster.delete_acls([good]).require()


@pytest.mark.integration
def test_quotas_are_set_and_removed_one_by_one(cluster: Cluster) -> None:
    """Users, clients, both, and the default; a bad key does not hold up the good one beside it."""
    user = f"u-{uuid.uuid4().hex[:6]}"
    entities = [
        QuotaEntity.of({"user": user}),
        QuotaEntity.of({"client-id": user}),
        QuotaEntity.of({"user": user, "client-id": None}),
    ]
    limits: dict[str, float | None] = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}
    assert {} == cluster.alter_quotas(dict.fromkeys(entities, limits)).refused

    def found() -> dict[QuotaEntity, dict[str, float]]:
        quotas = cluster.describe_quotas().items()
        return {entity: dict(limits) for entity, limits in quotas if user in str(entity)}

    assert_soon(dict.fromkeys(entities, limits), found)
    mixed = {
        entities[0]: {"no_such_rate": 1.0, "producer_byte_rate": None},
        entities[1]: {"consumer_byte_rate": 7.0},
    }
    answers = cluster.alter_quotas(mixed)
    assert [(entities[0], "no_such_rate")] == list(answers.refused)
    assert_soon({"request_percentage": 12.5}, lambda: found()[entities[0]])
    cluster.alter_quotas({it: dict.fromkeys([*limits, "consumer_byte_rate"]) for it in entities}).require()
    assert_soon({}, found)


def test_a_request_has_one_key_of_an_entity() -> None:
    """Brokers answer once per entity; nothing is lost."""
    one, other = QuotaEntity.of({"user": "a"}), QuotaEntity.of({"user": "b"})
    assert [{one: {"x": 1.0}, other: {"x": None}}, {one: {"y": 2.0}}] == list(
        rounds({one: {"x": 1.0, "y": 2.0}, other: {"x": None}})
    )


@pytest.mark.integration
def test_a_bad_config_leaves_the_others_of_its_topic(cluster: Cluster, topic: str) -> None:
    """Unknown names and values that a broker refuses, each with its reason; removing works beside them."""
    cluster.alter_topic_configs({topic: {"max.message.bytes": "5000"}}).require()
    answers = cluster.alter_topic_configs({
        topic: {"no.such.config": "1", "retention.ms": "77", "segment.ms": "x", "max.message.bytes": None},
        f"{topic}-missing": {"retention.ms": "1", "segment.ms": "2"},
    })
    assert {(topic, "retention.ms"), (topic, "max.message.bytes")} == set(answers.found)
    assert "no.such.config" in str(answers.refused[topic, "no.such.config"])
    assert "segment.ms" in str(answers.refused[topic, "segment.ms"])
    assert "unknown-topic" == answers.refused[f"{topic}-missing", "retention.ms"].code

    def own() -> dict[str, str | None]:
        configs = cluster.topic_configs([topic]).require()[topic].values()
        return {it.name: it.value for it in configs if it.source is ConfigSource.TOPIC}

    assert_soon({"retention.ms": "77"}, own)


@pytest.mark.integration
def test_a_cluster_without_authorizer_says_so(tmp_path) -> None:
    """One code for it, whatever was asked."""
    with EmbeddedKafka("N", tmp_path / "n", settings={"authorizer.class.name": ""}) as plain:
        host, port = plain.bootstrap_servers.split(":")
        settings = ClusterSettings(
            "N", plain.bootstrap_servers, ConnectionSettings("N", ((host, int(port)),))
        )
        with pytest.raises(ClusterRefused, match="no authorizer") as caught:
            Cluster(settings).describe_acls()
    assert "no-authorizer" == caught.value.code

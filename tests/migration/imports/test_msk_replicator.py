"""One direction of an Amazon MSK Replicator becomes an mm2.properties; no line is lost in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from twinlog.config.flow.load import resolve_text
from twinlog.errors import ConfigError
from twinlog.migration.imports.forms import Imported, import_files

EAST, WEST = (f"arn:aws:kafka:us-{it}-1:123456789012:cluster/{it}/1" for it in ("east", "west"))
CLUSTERS: list[dict[str, Any]] = [
    {
        "AmazonMskCluster": {"MskClusterArn": EAST},
        "KafkaClusterAlias": "east-1",
        "VpcConfig": {"SubnetIds": ["s"]},
    },
    {"AmazonMskCluster": {"MskClusterArn": WEST}, "KafkaClusterAlias": "west-1"},
]
TOPICS: dict[str, Any] = {
    "CopyAccessControlListsForTopics": False,
    "CopyTopicConfigurations": True,
    "DetectAndCopyNewTopics": True,
    "StartingPosition": {"Type": "LATEST"},
    "TopicsToReplicate": ["orders.*", "pay"],
    "TopicsToExclude": ["orders-x"],
}
GROUPS: dict[str, Any] = {
    "ConsumerGroupsToReplicate": ["app.*"],
    "ConsumerGroupsToExclude": ["app-x"],
    "SynchroniseConsumerGroupOffsets": True,
}
DIRECTION: dict[str, Any] = {
    "SourceKafkaClusterAlias": "east-1",
    "TargetKafkaClusterAlias": "west-1",
    "TargetCompressionType": "NONE",
    "TopicReplication": TOPICS,
    "ConsumerGroupReplication": GROUPS,
}
OWN_CLUSTER: dict[str, Any] = {
    "ApacheKafkaCluster": {"BootstrapBrokerString": "east:9094", "ApacheKafkaClusterId": "id-1"},
    "ClientAuthentication": {"SaslScram": {"Mechanism": "SHA512", "SecretArn": "arn:aws:secret"}},
    "EncryptionInTransit": {"EncryptionType": "TLS", "RootCaCertificate": "arn:aws:root"},
    "KafkaClusterAlias": "east-1",
}


def imported(
    tmp_path: Path, *directions: dict[str, Any], flow: str = "", clusters: list[dict[str, Any]] = CLUSTERS
) -> Imported:
    path = tmp_path / "replicator.json"
    described = {"ReplicationInfoList": list(directions or (DIRECTION,)), "KafkaClusters": clusters}
    path.write_text(json.dumps({**described, "ReplicatorName": "r"}))
    return import_files([path], flow=flow)


def test_it_means_the_same(tmp_path: Path) -> None:
    """Its patterns, its switches, the alias that MSK gave; logins by IAM; off, as nobody knows where it stands."""
    made = imported(tmp_path)
    flow = resolve_text(made.file.text, Path("mm2.properties")).configuration.flows["east-1->west-1"]
    assert (False, ("orders.*", "pay")) == (flow.enabled, flow.topics.include)
    assert {"orders-x", "__.*"} <= set(flow.topics.exclude)
    assert "east-1.pay" == flow.policy.format_remote_topic("east-1", "pay")
    lines = javaproperties.loads(made.file.text)
    assert (
        "${env:EAST_1_BOOTSTRAP_SERVERS}",
        "AWS_MSK_IAM",
        "app.*",
        "app-x",
        "false",
        "true",
        "true",
    ) == tuple(
        lines[key]
        for key in (
            "east-1.bootstrap.servers",
            "west-1.sasl.mechanism",
            "east-1->west-1.groups",
            "east-1->west-1.groups.exclude",
            "east-1->west-1.sync.topic.acls.enabled",
            "east-1->west-1.sync.topic.configs.enabled",
            "east-1->west-1.sync.group.offsets.enabled",
        )
    )
    assert {
        "topicReplication.startingPosition.type",
        "targetCompressionType",
        "east-1.vpcConfig.subnetIds",
        "replicatorName",
    } == {it.key for it in made.file.left_out}
    assert [EAST in made.warnings[0], WEST in made.warnings[1], "switched off" in made.warnings[2]] == [
        True
    ] * 3


def test_identical_names(tmp_path: Path) -> None:
    """Keep topic names; the clusters may have any names then."""
    names = {"TopicNameConfiguration": {"Type": "IDENTICAL"}}
    made = imported(tmp_path, DIRECTION | {"TopicReplication": TOPICS | names}, flow="A->B")
    flow = resolve_text(made.file.text, Path("mm2.properties")).configuration.flows["A->B"]
    assert "pay" == flow.policy.format_remote_topic("A", "pay")


def test_a_cluster_of_ones_own(tmp_path: Path) -> None:
    """Has its addresses in the description, and its password nowhere near it."""
    made = imported(tmp_path, clusters=[OWN_CLUSTER, CLUSTERS[1]])
    lines = javaproperties.loads(made.file.text)
    assert ("east:9094", "SASL_SSL", "SCRAM-SHA-512") == tuple(
        lines[f"east-1.{key}"] for key in ("bootstrap.servers", "security.protocol", "sasl.mechanism")
    )
    assert 'password="${env:EAST_1_PASSWORD}"' in lines["east-1.sasl.jaas.config"]
    assert "arn:aws:secret" in made.warnings[0]
    assert "east-1.encryptionInTransit.rootCaCertificate" in {it.key for it in made.file.left_out}


def test_the_request_that_creates_one_is_read_too(tmp_path: Path) -> None:
    """It has ARNs instead of aliases, and keys as the API's reference writes them."""
    path = tmp_path / "create.json"
    direction = {
        "sourceKafkaClusterArn": EAST,
        "targetKafkaClusterArn": WEST,
        "topicReplication": {"topicsToReplicate": ["a"]},
        "consumerGroupReplication": {"consumerGroupsToReplicate": [".*"]},
    }
    clusters = [{"amazonMskCluster": {"mskClusterArn": it}} for it in (EAST, WEST)]
    path.write_text(json.dumps({"kafkaClusters": clusters, "replicationInfoList": [direction]}))
    lines = javaproperties.loads(import_files([path], flow="A->B").file.text)
    assert ("a", "true") == (lines["A->B.topics"], lines["A->B.sync.group.offsets.enabled"])
    with pytest.raises(ConfigError, match="has no names for its clusters"):
        import_files([path])


def test_the_direction_is_chosen(tmp_path: Path) -> None:
    """By the aliases that MSK has given; without a choice all are named."""
    back = DIRECTION | {"SourceKafkaClusterAlias": "west-1", "TargetKafkaClusterAlias": "east-1"}
    made = imported(tmp_path, DIRECTION, back, flow="west-1->east-1")
    assert "west-1->east-1.topics" in javaproperties.loads(made.file.text)
    with pytest.raises(ConfigError, match="its directions are east-1->west-1, west-1->east-1"):
        imported(tmp_path, DIRECTION, back)


@pytest.mark.parametrize(
    ("changed", "flow", "part"),
    [
        ({}, "a->west-1", "its copies are named east-1.TOPIC"),
        ({"SourceKafkaClusterAlias": "north"}, "", "kafkaClusters has no entry for north"),
        ({"TopicReplication": TOPICS | {"TopicsToReplicate": ["a{1,2}"]}}, "", "has a comma"),
        ({"TopicReplication": TOPICS | {"TopicsToReplicate": "a"}}, "", "is no list of patterns"),
        ({"ConsumerGroupReplication": {}}, "", "consumerGroupsToReplicate is no list of patterns"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, changed: dict[str, Any], flow: str, part: str
) -> None:
    """One line that names what it is."""
    with pytest.raises(ConfigError) as caught:
        imported(tmp_path, DIRECTION | changed, flow=flow)
    assert part in str(caught.value)


def test_a_login_without_equal_is_refused(tmp_path: Path) -> None:
    """Rather than written as none."""
    other = {"ClientAuthentication": {"MTLS": {"SecretArn": "arn:aws:secret"}}}
    with pytest.raises(ConfigError, match=r"clientAuthentication\.mTLS\.secretArn has no translation"):
        imported(tmp_path, clusters=[OWN_CLUSTER | other, CLUSTERS[1]])

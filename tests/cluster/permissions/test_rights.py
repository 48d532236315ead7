"""What a user may do, asked of a real broker with its StandardAuthorizer on."""

import shlex
import subprocess
from collections.abc import Iterator

import pytest

from twinlog.cluster.api import Cluster
from twinlog.cluster.permissions.needs import Finding, Kind, Names, Need, Resource, acl_lines, judge, needs
from twinlog.cluster.permissions.rights import find_rights
from twinlog.cluster.values import NewTopic
from twinlog.config.file.providers import Secret
from twinlog.config.flow.metadata import MetadataSettings
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
    SaslSettings,
    SecurityProtocol,
)
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.jars import class_path, tools_jars
from twinlog.protocol.brokers import Brokers

pytestmark = pytest.mark.integration

USERS = {"nobody": "n0", "granted": "g0", "reader": "r0"}
LANES = "twinlog.A->B."


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    """A cluster where nothing is allowed that no ACL allows; A and B of the flow are both this one."""
    settings = {"allow.everyone.if.no.acl.found": "false"}
    with EmbeddedKafka("G", listeners=["SASL_PLAINTEXT"], users=USERS, settings=settings) as cluster:
        topics = [NewTopic("orders", 2, 1), NewTopic("A.orders", 2, 1)]
        _administrator(cluster).create_topics(topics).require()
        yield cluster


def _flow(cluster: EmbeddedKafka, user: str) -> FlowSettings:
    ends = _settings(cluster, user, "A"), _settings(cluster, user, "B")
    return FlowSettings(*ends, sync_group_offsets=True, metadata=MetadataSettings(quotas=True))


def _settings(cluster: EmbeddedKafka, user: str, alias: str) -> ClusterSettings:
    address = cluster.address("SASL_PLAINTEXT")
    host, port = address.split(":")
    sasl = SaslSettings("SCRAM-SHA-512", user, Secret(USERS[user]))
    connection = ConnectionSettings(alias, ((host, int(port)),), SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)
    return ClusterSettings(alias, address, connection)


def _administrator(cluster: EmbeddedKafka) -> Cluster:
    host, port = cluster.bootstrap_servers.split(":")
    return Cluster(ClusterSettings("G", "", ConnectionSettings("G", ((host, int(port)),))))


def _wanted(flow: FlowSettings) -> tuple[Need, ...]:
    names = Names(("orders", "new"), ("billing",), frozenset({"A.orders"}))
    return needs(flow, names, LANES)


def _findings(flow: FlowSettings) -> tuple[Finding, ...]:
    wanted = _wanted(flow)
    rights = {}
    for settings in (flow.source, flow.target):
        with Brokers(settings.connection) as brokers:
            rights |= find_rights(brokers, brokers, wanted)
    return judge(wanted, rights)


def _run(line: str, cluster: EmbeddedKafka) -> None:
    """Run a kafka-acls line with Kafka's own tool, as the administrator."""
    words = shlex.split(line)
    assert words[0] == "kafka-acls.sh"
    words[words.index("--bootstrap-server") + 1] = cluster.bootstrap_servers
    at = words.index("--command-config")
    del words[at : at + 2]
    command = ["java", "-cp", class_path(tools_jars()), "org.apache.kafka.tools.AclCommand", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_user_without_rights_lacks_everything_that_can_be_asked(guarded: EmbeddedKafka) -> None:
    """Every need is missing, also on topics that do not exist."""
    findings = _findings(_flow(guarded, "nobody"))
    not_missing = {
        (finding.need.resource.name, operation)
        for finding in findings
        for operation in finding.need.operations
        if operation not in finding.missing
    }
    assert not_missing == set()


def test_the_lines_grant_exactly_what_is_missing(guarded: EmbeddedKafka) -> None:
    """After running them nothing is missing any more."""
    flow = _flow(guarded, "granted")
    lines = acl_lines(_findings(flow), {"A": flow.source, "B": flow.target})
    for line in lines:
        _run(line, guarded)
    assert [
        finding
        for finding in _findings(flow)
        if finding.missing or (finding.unknown and finding.need.required)
    ] == []


def test_asking_leaves_nothing_behind(guarded: EmbeddedKafka) -> None:
    """No topic appears, no partition is added."""
    administrator = _administrator(guarded)
    _findings(_flow(guarded, "granted"))
    _findings(_flow(guarded, "nobody"))
    names = [name for name in administrator.topic_names() if not name.startswith("__")]
    counts = {name: len(it.partitions) for name, it in administrator.describe_topics(names).require().items()}
    assert counts == {"orders": 2, "A.orders": 2}


def test_one_missing_operation_is_found_alone(guarded: EmbeddedKafka) -> None:
    """A user that may DESCRIBE but not READ lacks READ."""
    _run(
        "kafka-acls.sh --bootstrap-server x --command-config y --add --allow-principal User:reader"
        " --operation Describe --topic orders",
        guarded,
    )
    source = [
        one
        for one in _findings(_flow(guarded, "reader"))
        if one.need.resource == Resource(Kind.TOPIC, "orders")
    ]
    assert [finding.missing for finding in source] == [("READ",), ("DESCRIBE_CONFIGS",)]

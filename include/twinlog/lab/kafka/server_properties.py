"""Make a broker's server.properties: pure, from a plan of the cluster to a dict of settings.

Every node is broker and controller (KRaft combined mode), or a broker of old that needs ZooKeeper.  PLAINTEXT is always
there: the brokers, the readiness check and the tests' administrator use it, and its principal `User:ANONYMOUS` is a
super user.  The other listeners are for clients whose ACLs and logins matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from twinlog.lab.kafka.certificates import Certificates
from twinlog.lab.kafka.jars import KAFKA_VERSION, needs_zookeeper, release

HOST = "127.0.0.1"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_S = 3
"""Seconds that ZooKeeper keeps the id of a killed broker taken."""

_CONTROLLER = "CONTROLLER"
_FIRST_WITH_PEM = (2, 7)
_LOGIN_MODULES = "org.apache.kafka.common.security"


class Listener(StrEnum):
    """A listener by its security protocol; each is offered on a port of its own."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


@dataclass(frozen=True)
class NodePlan:
    """One broker: its id from 1 on, its folder, and the ports of its listeners and its controller."""

    node_id: int
    folder: Path
    ports: Mapping[Listener, int]
    controller_port: int

    @property
    def data(self) -> Path:
        """Return the folder of the broker's log segments and its metadata log."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """Return the file of the broker's output."""
        return self.folder / "broker.log"

    @property
    def properties(self) -> Path:
        """Return the broker's server.properties."""
        return self.folder / "server.properties"


@dataclass(frozen=True)
class ClusterPlan:
    """All that the settings of a cluster depend on.

    `users`: user name to password, valid for PLAIN and both SCRAM mechanisms.  `settings`: broker settings that
    override ours.  `version`: of the brokers.
    """

    nodes: tuple[NodePlan, ...]
    users: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    certificates: Certificates | None = None
    version: str = KAFKA_VERSION

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Return the listeners that every node offers."""
        return tuple(self.nodes[0].ports)

    def addresses(self, listener: Listener) -> str:
        """Return the bootstrap servers of one listener, as clients take them."""
        return ",".join(f"{HOST}:{node.ports[listener]}" for node in self.nodes)


def server_properties(cluster: ClusterPlan, node: NodePlan) -> dict[str, str]:
    """Return the settings of `node`, overridden by `cluster.settings`."""
    role = _with_zookeeper if needs_zookeeper(cluster.version) else _with_kraft
    properties = _identity(cluster, node) | role(cluster, node) | _small_and_quick(cluster)
    if cluster.certificates:
        reads_pem = release(cluster.version) >= _FIRST_WITH_PEM
        properties |= (_tls if reads_pem else _tls_without_pem)(cluster.certificates)
    for listener in (Listener.SASL_PLAINTEXT, Listener.SASL_SSL):
        if listener in node.ports:
            properties |= _sasl(listener, cluster.users)
    return properties | dict(cluster.settings)


def _identity(cluster: ClusterPlan, node: NodePlan) -> dict[str, str]:
    return {
        "broker.rack": f"rack-{node.node_id}",
        "advertised.listeners": ",".join(_addresses(node)),
        "inter.broker.listener.name": Listener.PLAINTEXT,
        "log.dirs": str(node.data),
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
        "auto.create.topics.enable": "false",
    }


def _addresses(node: NodePlan) -> list[str]:
    return [f"{listener}://{HOST}:{port}" for listener, port in node.ports.items()]


def _with_kraft(cluster: ClusterPlan, node: NodePlan) -> dict[str, str]:
    protocols = [f"{listener}:{listener}" for listener in node.ports]
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{each.node_id}@{HOST}:{each.controller_port}" for each in cluster.nodes
        ),
        "controller.listener.names": _CONTROLLER,
        "listeners": ",".join([*_addresses(node), f"{_CONTROLLER}://{HOST}:{node.controller_port}"]),
        "listener.security.protocol.map": ",".join([*protocols, f"{_CONTROLLER}:PLAINTEXT"]),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    }


def _with_zookeeper(cluster: ClusterPlan, node: NodePlan) -> dict[str, str]:
    """Return settings of a broker of old; one ZooKeeper, on the first node's controller port, serves the cluster."""
    authorizers = "kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"{HOST}:{cluster.nodes[0].controller_port}",
        "zookeeper.session.timeout.ms": str(SESSION_S * 1000),
        "listeners": ",".join(_addresses(node)),
        "authorizer.class.name": authorizers[release(cluster.version) < (2, 4)],
    }


def _small_and_quick(cluster: ClusterPlan) -> dict[str, str]:
    """Return settings for small, quick brokers.

    Few internal partitions, no delay for a group's first rebalance, little memory for the log cleaner, small indexes.

    A segment's two indexes are mapped at their full size, 10 MB each by default, and Linux fills them with zeroes at
    the first write: 4 to 30 ms for each partition's first records and for each roll.
    """
    copies = str(min(3, len(cluster.nodes)))
    in_sync = str(min(2, len(cluster.nodes)))
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        "default.replication.factor": copies,
        **{f"{topic}.replication.factor": copies for topic in internal},
        **{f"{topic}.num.partitions": "4" for topic in internal},
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        "log.index.size.max.bytes": str(256 * 1024),  # enough for a segment of 87 MB
    }


def _tls(certificates: Certificates) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificates.server.read_text(),
        "ssl.keystore.key": certificates.server_key.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        # A client with a certificate is known by its subject; one without is ANONYMOUS.
        "ssl.client.auth": "requested",
    }


def _tls_without_pem(certificates: Certificates) -> dict[str, str]:
    """Return the same settings with PKCS12 stores: brokers before 2.7 read no PEM (KIP-651)."""
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(certificates.server_pkcs12),
        "ssl.keystore.password": certificates.password,
        "ssl.key.password": certificates.password,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(certificates.truststore_pkcs12),
        "ssl.truststore.password": certificates.password,
        "ssl.client.auth": "requested",
    }


def _sasl(listener: Listener, users: Mapping[str, str]) -> dict[str, str]:
    prefix = f"listener.name.{listener.lower()}"
    known = "".join(f" user_{name}={_quoted(password)}" for name, password in users.items())
    properties = {
        f"{prefix}.sasl.enabled.mechanisms": ",".join([*SCRAM_MECHANISMS, "PLAIN", "OAUTHBEARER"]),
        f"{prefix}.plain.sasl.jaas.config": f"{_LOGIN_MODULES}.plain.PlainLoginModule required{known};",
        # Kafka's development validator: any unsecured token that names a subject and has not expired.
        f"{prefix}.oauthbearer.sasl.jaas.config": f"{_LOGIN_MODULES}.oauthbearer.OAuthBearerLoginModule"
        ' required unsecuredLoginStringClaim_sub="broker";',
    }
    for mechanism in SCRAM_MECHANISMS:
        key = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
        properties[key] = f"{_LOGIN_MODULES}.scram.ScramLoginModule required;"
    return properties


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def scram_arguments(users: Mapping[str, str]) -> list[str]:
    """Return the arguments by which `StorageTool format` writes the users' SCRAM credentials (KIP-900)."""
    return [
        argument
        for name, password in users.items()
        for mechanism in SCRAM_MECHANISMS
        for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
    ]


def scram_entry(password: str) -> str:
    """Return a user's config entries by which `kafka-configs --zookeeper` writes SCRAM credentials, before KIP-900."""
    return ",".join(f"{mechanism}=[password={password}]" for mechanism in SCRAM_MECHANISMS)

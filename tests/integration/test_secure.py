"""The whole copy, from mm2.properties with Java's security settings, over every listener; and older brokers.

Costs about 70 s: two more brokers are started.
"""

from __future__ import annotations

import random
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bearer_tokens
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from in_turn import in_turn

from lab import Seen, ThreadRunner, create_topic, cycle, produce, read
from twinlog.cluster.api import Cluster
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.certificates import Certificates
from twinlog.lab.kafka.jars import OLDER_KAFKA_VERSION
from twinlog.lab.kafka.java import find_java
from twinlog.protocol.brokers import Brokers

RECORDS = [Seen(b"%d" % n, b"v" * 40, 1_700_000_000_000 + n) for n in range(200)]
# Other tests' heartbeats lie on the shared clusters: a flow that copies them counts more than its topic.
ALONE = "heartbeats.replication.enabled = false"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def alice(module: str) -> str:
    """A JAAS line for alice."""
    return f'{module} required username="alice" password="wonder land!";'


def jks_of(files: Certificates) -> Path:
    """The authority as a JKS, made by Java's own keytool."""
    if not (store := files.folder / "truststore.jks").exists():
        keytool = Path(find_java().path).resolve().with_name("keytool")
        made = [
            "-importcert",
            "-noprompt",
            "-storetype",
            "JKS",
            "-keystore",
            store,
            "-storepass",
            files.password,
        ]
        subprocess.run([keytool, *made, "-file", files.ca], capture_output=True, check=True)
    return store


def security(kind: str, cluster: Any) -> tuple[str, dict[str, str]]:
    """(listener, Java client properties) of one way to log in."""
    files = cluster.certificates
    pem_ca = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(files.ca)}
    match kind:
        case "SSL, PEM files":
            return "SSL", pem_ca
        case "SSL, PKCS12 key and PEM trust":
            keys = {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(files.client_pkcs12),
                "ssl.keystore.password": files.password,
                "ssl.key.password": files.password,
            }
            return "SSL", pem_ca | keys
        case "SSL, JKS trust":
            return "SSL", {
                "ssl.truststore.type": "JKS",
                "ssl.truststore.location": str(jks_of(files)),
                "ssl.truststore.password": files.password,
            }
        case "SASL_SSL, SCRAM-SHA-512":
            return "SASL_SSL", pem_ca | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": alice(SCRAM)}
        case "SASL_PLAINTEXT, SCRAM-SHA-256":
            return "SASL_PLAINTEXT", {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": alice(SCRAM)}
        case "SASL_PLAINTEXT, PLAIN":
            return "SASL_PLAINTEXT", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": alice(PLAIN)}
        case "SASL_PLAINTEXT, a function's token":
            return "SASL_PLAINTEXT", {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f'{OAUTH} required subject="alice";',
                "sasl.login.callback.handler.class": "python:bearer_tokens.unsecured",
            }
        case "SASL_PLAINTEXT, a token in a file":
            token, _ = bearer_tokens.unsecured("alice")
            (file := files.ca.with_name("token")).write_text(token)
            return "SASL_PLAINTEXT", {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{OAUTH} required;",
                "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
            }
        case _:
            jaas = f'{OAUTH} required unsecuredLoginStringClaim_sub="alice";'
            return "SASL_PLAINTEXT", {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}


def secured_flow(
    folder: Path, kind: str, secure: Any, plain: Any, topic: str, alias: str
) -> tuple[FlowSettings, FlowSettings]:
    """A flow from the secure cluster to the plain one and back: `alias` tells the state of each pair apart."""
    other = f"P{alias[1:]}"
    listener, properties = security(kind, secure)
    lines = [
        f"clusters = {alias}, {other}",
        f"{alias}.bootstrap.servers = {secure.address(listener)}",
        f"{alias}.security.protocol = {listener}",
        *(f"{alias}.{key} = {value}" for key, value in properties.items()),
        f"{other}.bootstrap.servers = {plain.bootstrap_servers}",
        f"{alias}->{other}.enabled = true",
        f"{other}->{alias}.enabled = true",
        f"topics = {topic}",
        "replication.factor = 1",
        "offset.storage.replication.factor = 1",
        ALONE,
    ]
    path = folder / "secure.properties"
    path.write_text("\n".join(lines) + "\n")
    flows = load(path).flows
    return flows[f"{alias}->{other}"], flows[f"{other}->{alias}"]


def assert_copied(flow: FlowSettings, source: Any, target: Any, topic: str, records: list[Seen]) -> None:
    """Make the topic, fill it, copy it, and compare."""
    create_topic(source, topic)
    produce(source, topic, records)
    assert cycle(flow).records == len(records)
    assert read(target, f"{flow.source.alias}.{topic}") == records


@pytest.mark.parametrize(
    "kind",
    [
        "SSL, PEM files",
        "SASL_SSL, SCRAM-SHA-512",
        "SASL_PLAINTEXT, PLAIN",
        "SASL_PLAINTEXT, OAUTHBEARER",
        *in_turn(
            "SSL, PKCS12 key and PEM trust",
            "SSL, JKS trust",
            "SASL_PLAINTEXT, SCRAM-SHA-256",
            "SASL_PLAINTEXT, a function's token",
            "SASL_PLAINTEXT, a token in a file",
        ),
    ],
)
def test_records_come_from_and_go_to_a_secured_cluster(
    kind: str, secure_cluster: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The same settings serve librdkafka and the relay's own sockets, as source and as target."""
    alias = f"S{uuid.uuid4().hex[:5]}"
    topic = unique_topic("secure")
    out, back = secured_flow(tmp_path, kind, secure_cluster, cluster_b, topic, alias)
    assert_copied(out, secure_cluster, cluster_b, topic, RECORDS)
    assert_copied(back, cluster_b, secure_cluster, topic, RECORDS)


@pytest.mark.long
def test_answers_of_megabytes_over_tls(
    secure_cluster: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """One is written while the next is read, into memory used in turn: no byte of one shows in another."""
    alias = f"S{uuid.uuid4().hex[:5]}"
    topic = unique_topic("megabytes")
    out, back = secured_flow(tmp_path, "SSL, PEM files", secure_cluster, cluster_b, topic, alias)
    records = [Seen(b"%d" % n, random.randbytes(9000), 1_700_000_000_000 + n) for n in range(3000)]
    assert_copied(out, secure_cluster, cluster_b, topic, records)
    assert_copied(back, cluster_b, secure_cluster, topic, records)


def test_a_wrong_password_is_refused_by_name(
    secure_cluster: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """One line, without the password."""
    kind = "SASL_PLAINTEXT, SCRAM-SHA-256"
    flow, _ = secured_flow(tmp_path, kind, secure_cluster, cluster_b, "t", f"S{uuid.uuid4().hex[:5]}")
    path = tmp_path / "secure.properties"
    path.write_text(path.read_text().replace("wonder land!", "hunter2"))
    flow = load(path).flows[flow.name]
    with pytest.raises(ClusterRefused, match="does not accept the login: SCRAM-SHA-256") as caught:
        Brokers(flow.source.connection).any_broker()
    assert "hunter2" not in f"{caught.value} {caught.value.data}"


def test_a_listener_without_sasl_is_not_called_a_wrong_password(
    secure_cluster: Any, cluster_b: Any, tmp_path: Path
) -> None:
    """Both our own connections and confluent-kafka's say what to set."""
    kind = "SASL_PLAINTEXT, SCRAM-SHA-256"
    flow, _ = secured_flow(tmp_path, kind, secure_cluster, cluster_b, "t", f"S{uuid.uuid4().hex[:5]}")
    path = tmp_path / "secure.properties"
    there, none = secure_cluster.address("SASL_PLAINTEXT"), secure_cluster.bootstrap_servers
    path.write_text(path.read_text().replace(there, none))
    source = load(path).flows[flow.name].source
    said = []
    for ask in (Brokers(source.connection).any_broker, Cluster(source).cluster_id):
        with pytest.raises(ClusterRefused) as caught:
            ask()
        said.append((caught.value.code, caught.value.message))
    assert [
        ("sasl", f"cluster {source.alias} takes no login at this listener, which has no SASL")
    ] * 2 == said


def test_a_target_that_refuses_a_transactional_id_says_which_acl_is_missing(
    secure_cluster: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Nothing is copied; the hint leads to `twinlog check`."""
    alias, topic = f"S{uuid.uuid4().hex[:5]}", unique_topic("refused")
    _, back = secured_flow(tmp_path, "SASL_PLAINTEXT, PLAIN", secure_cluster, cluster_b, topic, alias)
    create_topic(cluster_b, topic)
    produce(cluster_b, topic, RECORDS)
    deny = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        f"twinlog-{back.name}-",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    admin = AdminClient({"bootstrap.servers": secure_cluster.bootstrap_servers})
    for future in admin.create_acls([deny]).values():
        future.result()
    with pytest.raises(ClusterRefused, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED") as caught:
        cycle(back)
    assert "twinlog check" in caught.value.hint


@pytest.mark.long
@pytest.mark.parametrize("older", ["source", "target"])
def test_brokers_of_3_9_on_either_side(
    older: str, cluster_a: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """One set of request versions serves both; exactly once holds."""
    topic = unique_topic("older")
    with EmbeddedKafka("O", tmp_path / "older", OLDER_KAFKA_VERSION) as old:
        source, target = (old, cluster_a) if older == "source" else (cluster_a, old)
        names = ("OLD", "A") if older == "source" else ("A", "OLD")
        path = tmp_path / "older.properties"
        path.write_text(
            f"clusters = A, OLD\n{names[0]}.bootstrap.servers = {source.bootstrap_servers}\n"
            f"{names[1]}.bootstrap.servers = {target.bootstrap_servers}\n{names[0]}->{names[1]}.enabled = true\n"
            f"topics = {topic}\nreplication.factor = 1\noffset.storage.replication.factor = 1\n{ALONE}\n"
        )
        create_topic(source, topic)
        produce(source, topic, RECORDS, compression_type="zstd")
        assert cycle(load(path).flows[f"{names[0]}->{names[1]}"], ThreadRunner()).records == len(RECORDS)
        assert read(target, f"{names[0]}.{topic}") == RECORDS

"""Kerberos: a real KDC, two brokers whose clients log in by GSSAPI, and what one line says when there is no login.

Costs about 30 s.  Without MIT's KDC or the library gssapi it is skipped; `.ci/kerberos` brings both.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kerberos_realm import BROKER, KRB5_LOGIN, REALM, Realm, broker, missing

from lab import Seen, commit_group, create_topic, cycle, produce, read
from twinlog.cluster.kafka import KafkaCluster
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, ConfigError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.socket.kerberos import _credentials

gssapi: Any = pytest.importorskip("gssapi", reason=missing())
pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(missing()), reason=missing())]

RECORDS = [Seen(b"%d" % n, b"v" * 40, 1_700_000_000_000 + n) for n in range(200)]


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with Realm(tmp_path_factory.mktemp("realm")).running() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.variables.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture(scope="module")
def keytabs(realm: Realm) -> dict[str, Path]:
    return {name: realm.keytab(name) for name in (BROKER, "twinlog")}


@pytest.fixture(scope="module")
def clusters(
    realm: Realm, keytabs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("clusters")
    with (
        broker("KA", realm, keytabs[BROKER], folder / "KA") as source,
        broker("KB", realm, keytabs[BROKER], folder / "KB") as target,
    ):
        yield source, target


@pytest.fixture
def written(clusters: Any, keytabs: dict[str, Path], tmp_path: Path) -> Callable[..., FlowSettings]:
    """Make a flow's file with Java's login entry, and load it."""

    def write(topic: str = "none", service: str = "kafka", **options: str) -> FlowSettings:
        given = {"useKeyTab": "true", "storeKey": "true", "keyTab": str(keytabs["twinlog"])}
        given |= {"principal": f"twinlog@{REALM}"} | options
        entry = " ".join(f'{key}="{value}"' for key, value in given.items())
        source, target = clusters
        path = tmp_path / "mm2.properties"
        path.write_text(
            f"clusters = KA, KB\nKA.bootstrap.servers = {source.address('SASL_PLAINTEXT')}\n"
            f"KB.bootstrap.servers = {target.address('SASL_PLAINTEXT')}\nKA->KB.enabled = true\n"
            f"security.protocol = SASL_PLAINTEXT\nsasl.mechanism = GSSAPI\nsasl.kerberos.service.name = {service}\n"
            f"sasl.jaas.config = {KRB5_LOGIN} {entry};\ntopics = {topic}\nreplication.factor = 1\n"
            "offset.storage.replication.factor = 1\nheartbeats.replication.enabled = false\n"
        )
        return load(path).flows["KA->KB"]

    return write


def plain(cluster: Any) -> KafkaCluster:
    """The same cluster without a login, by confluent-kafka."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    settings = ConnectionSettings(cluster.name, ((host, int(port)),))
    return KafkaCluster(ClusterSettings(cluster.name, cluster.bootstrap_servers, settings))


def test_records_go_from_one_kerberos_cluster_to_another(
    clusters: Any, written: Callable[..., FlowSettings], unique_topic: Callable[[str], str]
) -> None:
    """Java's login entry with a keytab is all that a flow needs."""
    source, target = clusters
    topic = unique_topic("orders")
    create_topic(source, topic)
    produce(source, topic, RECORDS)
    assert cycle(written(topic)).records == len(RECORDS)
    assert read(target, f"KA.{topic}") == RECORDS


def test_our_requests_answer_as_confluent_kafka_does(
    clusters: Any, written: Callable[..., FlowSettings], unique_topic: Callable[[str], str]
) -> None:
    """Topics, settings, offsets, groups and records of one cluster, asked with a ticket and without a login."""
    source, _ = clusters
    topic, group = unique_topic("asked"), unique_topic("group")
    create_topic(source, topic, 2, **{"retention.ms": "-1"})
    produce(source, topic, RECORDS)
    commit_group(source, group, topic, 7)
    by_ticket, by_client = KafkaCluster(written().source), plain(source)
    at, other, none = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("none", 0)

    def told(cluster: KafkaCluster) -> list[Any]:
        return [
            cluster.cluster_id(),
            cluster.broker_count(),
            cluster.topic_names(),
            cluster.lists_every_group(),
            [_facts(it) for it in cluster.describe_topics([topic, "none"]).found.values()],
            sorted(cluster.describe_topics([topic, "none"]).refused),
            dict(cluster.topic_configs([topic]).found),
            dict(cluster.offsets([at, other]).found),
            sorted(cluster.offsets([none]).refused),
            dict(cluster.offsets_at([at], RECORDS[50].timestamp).found),
            dict(cluster.describe_groups([group, "none"]).found),
            dict(cluster.read_records({at: 190, other: 0}, 20)),
        ]

    assert told(by_client) == told(by_ticket)


def _facts(described: Any) -> tuple[Any, ...]:
    return described.name, described.topic_id, described.partitions, described.operations


def test_our_requests_change_as_confluent_kafka_does(
    clusters: Any, written: Callable[..., FlowSettings], unique_topic: Callable[[str], str]
) -> None:
    """Settings, partitions, records and topics change; what is refused has the same code."""
    _, target = clusters
    topic = unique_topic("changed")
    create_topic(target, topic)
    cluster = KafkaCluster(written().target, written=True)
    at = TopicPartition(topic, 1)
    assert {topic: None} == dict(cluster.create_partitions({topic: 2}).require())
    cluster.produce(topic, [InternalRecord(b"k%d" % n, b"v" * 300_000, 1, n + 1) for n in range(5)])
    cluster.delete_records(at, 2)
    assert [(n, n + 1, b"k%d" % n) for n in (2, 3, 4)] == [
        (it.offset, it.timestamp, it.key) for it in cluster.read_records({at: 0}, 9)[at]
    ]
    changed = cluster.alter_topic_configs({topic: {"retention.ms": "5000", "cleanup.policy": "nonsense"}})
    assert {(topic, "retention.ms"): None} == dict(changed.found)
    assert ["INVALID_CONFIG"] == [it.data["kafka_error"] for it in changed.refused.values()]
    assert "5000" == plain(target).topic_configs([topic]).require()[topic]["retention.ms"].value
    cluster.delete_topics([topic]).require()
    assert topic not in cluster.topic_names()


def line(settings: FlowSettings) -> str:
    """What a login fails with."""
    with pytest.raises((ClusterRefused, ClusterUnreachable, ConfigError)) as caught:
        Brokers(settings.source.connection).any_broker()
    return str(caught.value)


def test_what_a_login_lacks_is_one_line(
    realm: Realm, keytabs: dict[str, Path], written: Callable[..., FlowSettings], tmp_path: Path
) -> None:
    """No keytab, another realm, a principal that the keytab has not, another service, no ticket, an expired one."""
    cache = f"FILE:{tmp_path}/cache"
    by_ticket = {"useKeyTab": "false", "useTicketCache": "true", "ticketCache": cache}
    elsewhere = realm.foreign_keytab("twinlog@OTHER.TEST")
    found = [
        line(written(keyTab="/nowhere/x.keytab")),
        line(written(principal=f"other@{REALM}")),
        line(written(keyTab=str(elsewhere), principal="twinlog@OTHER.TEST")),
        line(written(service="other")),
        line(written(**by_ticket)),
    ]
    realm.run("kinit", "-l", "2s", "-k", "-t", str(keytabs["twinlog"]), "-c", cache, "twinlog")
    Brokers(written(**by_ticket).source.connection).any_broker().close()
    time.sleep(3)
    found.append(line(written(**by_ticket)))
    kinit = "get a new ticket (kinit, k5start), or use a keytab, which needs no renewal"
    assert [
        "the keytab /nowhere/x.keytab is not there, or this user may not read it; put it at this path wherever twinlog"
        " and Spark's workers run",
        f"no Kerberos login to cluster KA: {keytabs['twinlog']} holds no key of other@{REALM}; klist -k lists what it"
        " holds",
        'no Kerberos login to cluster KA: Cannot find KDC for realm "OTHER.TEST"; check principal in sasl.jaas.config,'
        " its realm above all",
        f"no Kerberos login to cluster KA: Server other/127.0.0.1@{REALM} not found in Kerberos database; check"
        " sasl.kerberos.service.name, and that brokers are addressed by the host names of their principals",
        f"no Kerberos login to cluster KA: No credentials cache found; {kinit}",
        f"no Kerberos login to cluster KA: Ticket expired; {kinit}",
    ] == found


def test_a_keytab_gets_new_tickets(
    realm: Realm,
    keytabs: dict[str, Path],
    written: Callable[..., FlowSettings],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    """A process that lives longer than its ticket goes on logging in."""
    config = tmp_path / "krb5.conf"
    config.write_text(realm.config.read_text().replace("ticket_lifetime = 10h", "ticket_lifetime = 2s"))
    monkeypatch.setenv("KRB5_CONFIG", str(config))
    keytab = shutil.copy(
        keytabs["twinlog"], tmp_path / "a keytab of its own"
    )  # so there is no ticket for it yet
    settings = written(keyTab=str(keytab)).source.connection
    for _ in range(2):
        Brokers(settings).any_broker().close()
        assert 0 < _credentials(gssapi, settings.sasl.kerberos).lifetime <= 2  # type: ignore[union-attr,arg-type]
        time.sleep(3)

"""Real brokers.  Cost: about 60 s, most of it Java starting; the shared clusters are the session's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from twinlog.errors import TerminalError, UsageError
from twinlog.lab.kafka.broker import EmbeddedKafka, quick_start
from twinlog.lab.kafka.jars import OLDER_KAFKA_VERSION
from twinlog.process_id import born

pytestmark = pytest.mark.integration


def create_topic(servers: str, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
        created.result(10)


def produce(config: dict, topic: str, values: list[bytes]) -> None:
    producer = Producer(config)
    for value in values:
        producer.produce(topic, value)
    assert 0 == producer.flush(10)


def consume(config: dict, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**config, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(count, 0.5) if not message.error()]
    consumer.close()
    return values


def test_two_clusters_are_two(cluster_a, cluster_b, unique_topic):
    """Each cluster keeps its own records, and a topic of one is none of the other."""
    topic = unique_topic("orders")
    for cluster, values in ((cluster_a, [b"a1", b"a2"]), (cluster_b, [b"b1"])):
        create_topic(cluster.bootstrap_servers, topic)
        config = {"bootstrap.servers": cluster.bootstrap_servers}
        produce(config, topic, values)
        assert values == consume(config, topic, len(values))


def test_a_broker_takes_its_classes_from_an_archive(cluster_a):
    """The first broker of a version has left it for all others, which start in half of the CPU time."""
    (archive,) = [it for it in quick_start(cluster_a.version) if "SharedArchiveFile" in it]
    mapped = {it.path for it in psutil.Process(cluster_a.pids[0]).memory_maps()}
    assert archive.partition("=")[2] in mapped


def login(cluster, listener: str, mechanism: str, user: str, password: str) -> dict:
    config = {"bootstrap.servers": cluster.address(listener), "security.protocol": listener}
    if listener.endswith("SSL"):
        config["ssl.ca.location"] = str(cluster.certificates.ca)
    if mechanism == "OAUTHBEARER":
        unsecured = {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={user}",
        }
        return config | {"sasl.mechanism": mechanism} | unsecured
    if mechanism:
        return config | {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    return config


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SSL", ""),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
        ("SASL_PLAINTEXT", "OAUTHBEARER"),
        ("SASL_SSL", "SCRAM-SHA-512"),
        ("SASL_SSL", "PLAIN"),
    ],
)
def test_every_log_in_carries_records(secure_cluster, unique_topic, listener, mechanism):
    """Records go in and come out over every listener and mechanism on offer."""
    topic = unique_topic("secure")
    create_topic(secure_cluster.bootstrap_servers, topic)
    config = login(secure_cluster, listener, mechanism, "alice", "wonder land!")
    produce(config, topic, [b"one", b"two"])
    assert [b"one", b"two"] == consume(config, topic, 2)


def test_a_wrong_password_is_refused(secure_cluster):
    """The SASL listeners let nobody in without the right password."""
    config = login(secure_cluster, "SASL_PLAINTEXT", "SCRAM-SHA-512", "alice", "wrong")
    with pytest.raises(KafkaException):
        AdminClient({**config, "log_level": 0}).list_topics(timeout=3)


def test_a_client_certificate_is_a_principal(secure_cluster, unique_topic):
    """A client that shows its certificate is known by its subject, so that ACLs can name it."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    topic = unique_topic("acl")
    create_topic(secure_cluster.bootstrap_servers, topic)
    admin = AdminClient({"bootstrap.servers": secure_cluster.bootstrap_servers})
    deny = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:CN=client",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )
    for created in admin.create_acls([deny]).values():
        created.result(10)
    certificates = secure_cluster.certificates
    config = login(secure_cluster, "SSL", "", "", "") | {
        "ssl.certificate.location": str(certificates.client),
        "ssl.key.location": str(certificates.client_encrypted_key),
        "ssl.key.password": certificates.password,
    }
    deadline = time.monotonic() + 10  # an ACL takes effect when the broker has read the metadata log
    while topic in AdminClient(config).list_topics(timeout=5).topics and time.monotonic() < deadline:
        time.sleep(0.1)
    assert topic not in AdminClient(config).list_topics(timeout=5).topics


def test_records_survive_restart_and_kill_on_the_same_address(tmp_path):
    """What was acknowledged is there after a restart and after SIGKILL, under the same address."""
    quick = {"broker.session.timeout.ms": "3000"}
    with EmbeddedKafka("survivor", tmp_path / "kafka", settings=quick) as cluster:
        config = {"bootstrap.servers": cluster.bootstrap_servers}
        create_topic(cluster.bootstrap_servers, "orders")
        produce(config, "orders", [b"one"])
        cluster.restart()
        produce(config, "orders", [b"two"])
        cluster.kill()
        assert not cluster.is_running()
        cluster.start()
        assert config == {"bootstrap.servers": cluster.bootstrap_servers}
        assert [b"one", b"two"] == consume(config, "orders", 2)


@pytest.mark.long
def test_a_folder_is_taken_up_again_by_its_own_cluster_only(tmp_path):
    """Another object continues the data of a stopped cluster; another name or a live owner is refused."""
    folder = tmp_path / "kafka"
    with EmbeddedKafka("A", folder) as cluster:
        create_topic(cluster.bootstrap_servers, "orders")
        with pytest.raises(UsageError) as refused:
            EmbeddedKafka("A", folder).start()
        assert "cluster-running" == refused.value.code
    with pytest.raises(UsageError) as refused:
        EmbeddedKafka("B", folder).start()
    assert "stale-folder" == refused.value.code
    with EmbeddedKafka("A", folder) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        assert "orders" in admin.list_topics(timeout=5).topics


def test_a_taken_port_is_named_and_nothing_is_left(tmp_path):
    """A fixed port that somebody listens on is an error that names it, and the folder stays free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} is taken") as refused:
            EmbeddedKafka("A", tmp_path / "kafka", port=port).start()
    assert "port-taken" == refused.value.code
    assert not (tmp_path / "kafka").exists()


def test_a_setting_the_broker_refuses_is_said_in_one_line(tmp_path):
    """An illegal broker setting ends the start with Kafka's own reason."""
    with pytest.raises(TerminalError, match=r"message\.max\.bytes") as refused:
        EmbeddedKafka("A", tmp_path / "kafka", settings={"message.max.bytes": "lots"}).start()
    assert 1 == len(str(refused.value).splitlines())


def test_a_paused_cluster_does_not_answer_until_resumed(tmp_path):
    """SIGSTOP keeps the port open and silent; SIGCONT brings the answers back."""
    with EmbeddedKafka(
        "A", tmp_path / "kafka", settings={"log.message.timestamp.type": "LogAppendTime"}
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        cluster.pause()
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
        cluster.resume()
        assert 1 == len(admin.list_topics(timeout=10).brokers)


ORPHAN_MAKER = """
import sys, time
from pathlib import Path
from twinlog.lab.kafka.broker import EmbeddedKafka
cluster = EmbeddedKafka("orphan", Path(sys.argv[1]))
cluster.start()
print(cluster.pids[0], flush=True)
time.sleep(600)
"""


def test_sigkill_of_the_owner_leaves_no_orphan(tmp_path):
    """When the process that started a broker is killed, the broker and its watchdog go too."""
    command = [sys.executable, "-c", ORPHAN_MAKER, str(tmp_path / "kafka")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
        watchdogs = [child for child in psutil.Process(owner.pid).children() if child.pid != pid]
        assert born(pid) is not None
        assert 1 == len(watchdogs)
        os.kill(owner.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (born(pid) or born(watchdogs[0].pid)):
        time.sleep(0.05)
    assert (None, None) == (born(pid), born(watchdogs[0].pid))


def test_a_broker_of_3_9_starts(tmp_path, unique_topic):
    """The older Kafka of the compatibility tests starts and carries records."""
    with EmbeddedKafka("old", tmp_path / "kafka", version=OLDER_KAFKA_VERSION) as cluster:
        topic, config = unique_topic("old"), {"bootstrap.servers": cluster.bootstrap_servers}
        create_topic(cluster.bootstrap_servers, topic)
        produce(config, topic, [b"one"])
        assert [b"one"] == consume(config, topic, 1)


@pytest.mark.long
def test_three_nodes_lose_one_and_go_on(tmp_path):
    """A cluster of three acknowledges by its in-sync replicas while one broker is dead, and gets it back."""
    with EmbeddedKafka(
        "three", tmp_path / "kafka", nodes=3, settings={"broker.session.timeout.ms": "4000"}
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(10)
        config = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        produce(config, "orders", [b"one"])
        leader = admin.list_topics("orders", timeout=5).topics["orders"].partitions[0].leader
        cluster.kill(leader)
        producer = Producer({**config, "message.timeout.ms": "30000"})
        producer.produce("orders", b"two")
        assert 0 == producer.flush(30)
        cluster.start()
        assert cluster.is_running()
        assert [b"one", b"two"] == consume(config, "orders", 2)

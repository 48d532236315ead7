"""What server.properties says."""

from __future__ import annotations

from pathlib import Path

from twinlog.lab.kafka.certificates import make_certificates
from twinlog.lab.kafka.node import cause_of_death, new_cluster_id
from twinlog.lab.kafka.server_properties import (
    ClusterPlan,
    Listener,
    NodePlan,
    scram_arguments,
    scram_entry,
    server_properties,
)


def node(node_id: int = 1, *listeners: Listener) -> NodePlan:
    ports = {
        listener: 20000 + 10 * node_id + i for i, listener in enumerate([Listener.PLAINTEXT, *listeners])
    }
    return NodePlan(node_id, Path("/data") / f"node-{node_id}", ports, 20009 + 10 * node_id)


def test_a_plain_node_listens_for_clients_and_controllers_only():
    """One node has a PLAINTEXT and a controller listener, and advertises only the first."""
    properties = server_properties(ClusterPlan((node(),)), node())
    assert "PLAINTEXT://127.0.0.1:20010,CONTROLLER://127.0.0.1:20019" == properties["listeners"]
    assert "PLAINTEXT://127.0.0.1:20010" == properties["advertised.listeners"]
    assert "1@127.0.0.1:20019" == properties["controller.quorum.voters"]


def test_a_node_of_old_asks_zookeeper():
    """Before KRaft: the ZooKeeper of a cluster listens on the first node's controller port, and no controller does."""
    plan = ClusterPlan((node(1), node(2)), version="2.3.1")
    properties = server_properties(plan, plan.nodes[1])
    assert ("2", "127.0.0.1:20019") == (properties["broker.id"], properties["zookeeper.connect"])
    assert "PLAINTEXT://127.0.0.1:20020" == properties["listeners"]
    assert "kafka.security.auth.SimpleAclAuthorizer" == properties["authorizer.class.name"]
    assert [] == [it for it in properties if it.startswith(("process.", "controller."))]


def test_given_settings_win():
    """A setting that the caller gives replaces ours."""
    plan = ClusterPlan((node(),), settings={"auto.create.topics.enable": "true", "message.max.bytes": "2000"})
    properties = server_properties(plan, node())
    assert ("true", "2000") == (properties["auto.create.topics.enable"], properties["message.max.bytes"])


def test_internal_topics_have_as_many_copies_as_there_are_nodes_up_to_three():
    """One node keeps one copy, three and more keep three."""
    copies = {}
    for count in (1, 2, 3, 4):
        nodes = tuple(node(i) for i in range(1, count + 1))
        copies[count] = server_properties(ClusterPlan(nodes), nodes[0])["offsets.topic.replication.factor"]
    assert {1: "1", 2: "2", 3: "3", 4: "3"} == copies


def test_passwords_are_quoted_for_jaas():
    """A quote and a backslash in a password do not end the JAAS line."""
    plan = ClusterPlan((node(1, Listener.SASL_PLAINTEXT),), users={"alice": 'a"b\\c'})
    properties = server_properties(plan, plan.nodes[0])
    line = properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"]
    assert line.endswith('PlainLoginModule required user_alice="a\\"b\\\\c";')


def test_tls_listeners_get_the_certificates(tmp_path):
    """A node with a TLS listener carries its certificate and trusts the authority."""
    plan = ClusterPlan((node(1, Listener.SSL),), certificates=make_certificates(tmp_path))
    properties = server_properties(plan, plan.nodes[0])
    assert properties["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    assert str(tmp_path / "ca.pem") == properties["ssl.truststore.location"]


def test_brokers_before_2_7_read_no_pem(tmp_path):
    """They get the same certificate and authority as PKCS12 stores."""
    plan = ClusterPlan((node(1, Listener.SSL),), certificates=make_certificates(tmp_path), version="2.4.1")
    properties = server_properties(plan, plan.nodes[0])
    assert ["PKCS12"] * 2 == [properties[f"ssl.{store}.type"] for store in ("keystore", "truststore")]
    assert str(tmp_path / "server.p12") == properties["ssl.keystore.location"]


def test_every_user_gets_both_scram_credentials():
    """Formatting writes SCRAM-SHA-256 and SCRAM-SHA-512 for each user."""
    assert [
        "--add-scram",
        "SCRAM-SHA-256=[name=alice,password=secret]",
        "--add-scram",
        "SCRAM-SHA-512=[name=alice,password=secret]",
    ] == scram_arguments({"alice": "secret"})
    assert "SCRAM-SHA-256=[password=secret],SCRAM-SHA-512=[password=secret]" == scram_entry("secret")


def test_cluster_ids_look_like_kafkas():
    """A cluster id has 22 characters of URL-safe base64, none of them a dash."""
    ids = [new_cluster_id() for _ in range(200)]
    assert ({22}, False) == ({len(each) for each in ids}, any("-" in each for each in ids))


def test_the_cause_of_death_is_the_last_exception_and_no_stack_frame():
    """Of a Java log the line that names the innermost error is shown."""
    log = "INFO up\njava.lang.A: x\n\tat b.Exception.c\nCaused by: java.net.BindException: used\n\tat d\n"
    assert "Caused by: java.net.BindException: used" == cause_of_death(log)
    assert "only this" == cause_of_death("only this\n\n")
    assert "it printed nothing" == cause_of_death("")

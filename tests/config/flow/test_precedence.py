"""Which line wins: MM2's MirrorMakerConfig and MirrorConnectorConfig, and their tests."""

from __future__ import annotations

from itertools import combinations

import pytest

from twinlog.config.file.origin import Findings, Origin, Properties, Property
from twinlog.config.file.properties_file import parse
from twinlog.config.file.providers import providers_of
from twinlog.config.flow import precedence
from twinlog.config.flow.load import clusters_of, pairs_of


def raw(text: str) -> Properties:
    """A properties file written with blanks between its lines, for short tests."""
    return parse("\n".join(text.split()).encode(), "f", Findings("f"))


def texts(properties: Properties) -> dict[str, str]:
    return {key: value.text for key, value in properties.items()}


WORKED_EXAMPLE = """
    clusters=a,b security.protocol=SSL a.security.protocol=PLAINTEXT a.producer.security.protocol=SSL
    replication.policy.separator=__ a->b.tasks.max=7 tasks.max=100 xxx=zzz a.xxx=yyy
"""


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("tasks.max", "7"),
        ("security.protocol", "SSL"),
        ("source.cluster.security.protocol", "PLAINTEXT"),
        ("source.producer.security.protocol", "SSL"),
        ("source.consumer.security.protocol", "PLAINTEXT"),
        ("source.admin.security.protocol", "PLAINTEXT"),
        ("target.cluster.security.protocol", "SSL"),
        ("source.cluster.xxx", "yyy"),
        ("xxx", None),
        ("replication.policy.separator", "__"),
        ("enabled", "false"),
        ("source.cluster.alias", "a"),
        ("target.cluster.alias", "b"),
    ],
)
def test_the_worked_example(key: str, expected: str | None) -> None:
    """As MirrorConnectorConfig has it, key by key."""
    assert expected == texts(precedence.connector_config(raw(WORKED_EXAMPLE), "a", "b")).get(key)


# One writing of the same connector key per rule, weakest first, as the flow a->b sees it.
CONNECTOR_RULES = {
    "source.consumer.security.protocol": [
        "security.protocol",
        "a.security.protocol",
        "a.consumer.security.protocol",
        "a->b.source.consumer.security.protocol",
    ],
    "target.admin.sasl.mechanism": [
        "sasl.mechanism",
        "b.sasl.mechanism",
        "b.admin.sasl.mechanism",
        "a->b.target.admin.sasl.mechanism",
    ],
    "topics": ["topics", "a->b.topics"],
    "replication.policy.separator": ["replication.policy.separator", "a->b.replication.policy.separator"],
    "source.cluster.alias": ["source.cluster.alias", "a.alias", "a->b.source.cluster.alias"],
    "enabled": ["enabled", "a->b.enabled"],
}
WORKER_RULES = {
    "offset.storage.topic": ["b.offset.storage.topic", "offset.storage.topic"],
    "key.converter": ["b.key.converter", "key.converter"],
    "producer.security.protocol": [
        "security.protocol",
        "b.security.protocol",
        "b.producer.security.protocol",
    ],
    "security.protocol": ["security.protocol", "b.security.protocol"],
}


def pairs_of_rules(table: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    return [(key, weak, strong) for key, rules in table.items() for weak, strong in combinations(rules, 2)]


@pytest.mark.parametrize(("key", "weak", "strong"), pairs_of_rules(CONNECTOR_RULES))
def test_the_stronger_connector_rule_wins(key: str, weak: str, strong: str) -> None:
    """For each pair of rules that give a connector key, the later one of 2.4 wins, in any order of lines."""
    for lines in (f"{weak}=weak {strong}=strong", f"{strong}=strong {weak}=weak"):
        assert "strong" == precedence.connector_config(raw(lines), "a", "b")[key].text


@pytest.mark.parametrize(("key", "weak", "strong"), pairs_of_rules(WORKER_RULES))
def test_the_stronger_worker_rule_wins(key: str, weak: str, strong: str) -> None:
    """The same for the worker, where the top level beats the cluster for the storage keys."""
    for lines in (f"{weak}=weak {strong}=strong", f"{strong}=strong {weak}=weak"):
        assert "strong" == precedence.worker_config(raw(lines), "a", "b")[key].text


def test_every_value_travels_with_file_line_and_the_rules_that_won() -> None:
    """The origin names the key as written, its line, and the chain of rules."""
    properties = raw("clusters=a,b a.security.protocol=SSL")
    found = precedence.connector_config(properties, "a", "b")["source.consumer.security.protocol"]
    expected = Origin("source cluster: its own key, for every client", "f", 2, "a.security.protocol")
    assert expected == found.origin


def test_cluster_config() -> None:
    """MirrorMakerConfigTest.testClusterConfigProperties."""
    found = precedence.connector_config(
        raw(
            "clusters=a,b a.bootstrap.servers=servers-one b.bootstrap.servers=servers-two"
            " security.protocol=SSL replication.factor=4"
        ),
        "a",
        "b",
    )
    expected = {
        "source.cluster.bootstrap.servers": "servers-one",
        "target.cluster.bootstrap.servers": "servers-two",
        "security.protocol": "SSL",
        "replication.factor": "4",
    }
    assert expected == {key: texts(found).get(key) for key in expected}


def test_client_config() -> None:
    """MirrorMakerConfigTest.testClientConfigProperties: only client keys survive, the role's prefix wins."""
    properties = raw(
        "clusters=a,b security.protocol=SSL a.security.protocol=PLAINTEXT a.producer.security.protocol=SSL"
        " a.bootstrap.servers=s1:1,s2:2 ssl.key.password=${fake:secret:password} a.xxx=yyy xxx=zzz"
        " metrics.reporter=x"
    )
    clients = {role: texts(precedence.client_config(properties, "a", role)) for role in precedence.ROLES}
    assert ("PLAINTEXT", "SSL", "PLAINTEXT") == tuple(
        clients[role]["security.protocol"] for role in ("admin", "producer", "consumer")
    )
    assert {"s1:1,s2:2"} == {client["bootstrap.servers"] for client in clients.values()}
    assert {"bootstrap.servers", "security.protocol", "ssl.key.password"} == set(clients["admin"])


def test_what_reaches_a_connector() -> None:
    """MirrorMakerConfigTest.testIncludesConnectorConfigProperties: known keys pass, unknown ones do not."""
    lines = (
        "clusters=a,b tasks.max=100 topics=topic-1 groups=group-2 replication.policy.separator=__"
        " config.properties.exclude=property-3 metric.reporters=F topic.filter.class=D"
    )
    given = texts(raw(lines))
    found = texts(precedence.connector_config(raw(lines + " xxx=yyy use.defaults.from=source"), "a", "b"))
    del given["clusters"]
    assert given == {key: found.get(key) for key in given}
    assert not {"xxx", "use.defaults.from", "clusters"} & set(found)


def test_a_flow_may_set_any_key() -> None:
    """MirrorMakerConfigTest.testIncludesTopicFilterProperties, and keys that MM2 drops at the top level."""
    found = texts(
        precedence.connector_config(
            raw(
                "clusters=a,b source->target.topics=t1,t2 source->target.topics.exclude=t3 source->target.xxx=y"
            ),
            "source",
            "target",
        )
    )
    assert ("t1,t2", "t3", "y") == (found["topics"], found["topics.exclude"], found["xxx"])


WORKER_TEST = """
    clusters=a,b config.providers=fake config.providers.fake.class=F replication.policy.separator=__
    offset.storage.replication.factor=123 b.status.storage.replication.factor=456
    b.producer.client.id=client-one b.security.protocol=PLAINTEXT b.producer.security.protocol=SASL
    ssl.truststore.password=secret1 ssl.key.password=${fake:secret:password} b.xxx=yyy
"""


def test_worker_configs() -> None:
    """MirrorMakerConfigTest.testWorkerConfigs, before expansion."""
    to_a = texts(precedence.worker_config(raw(WORKER_TEST), "b", "a"))
    expected_a = {
        "client.id": "b->a",
        "group.id": "b-mm2",
        "offset.storage.topic": "mm2-offsets.b.internal",
        "offset.storage.replication.factor": "123",
        "replication.policy.separator": "__",
        "config.providers": "fake",
    }
    assert expected_a == {key: to_a.get(key) for key in expected_a}
    to_b = texts(precedence.worker_config(raw(WORKER_TEST), "a", "b"))
    expected_b = {
        "client.id": "a->b",
        "status.storage.replication.factor": "456",
        "producer.client.id": "client-one",
        "producer.security.protocol": "SASL",
        "consumer.security.protocol": "PLAINTEXT",
        "ssl.truststore.password": "secret1",
        "producer.ssl.truststore.password": "secret1",
        "producer.ssl.key.password": "${fake:secret:password}",
        "xxx": "yyy",
    }
    assert expected_b == {key: to_b.get(key) for key in expected_b}


def test_references_stay_unresolved_in_connector_configs() -> None:
    """MirrorMakerConfigTest.testLazyConfigResolution: secrets stay out of what is passed on."""
    found = texts(
        precedence.connector_config(
            raw("clusters=a,b ssl.key.password=${fake:secret:password} b->a.topics=${fake:x:y}"), "b", "a"
        )
    )
    assert ("${fake:secret:password}", "${fake:x:y}") == (found["ssl.key.password"], found["topics"])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("clusters=a,b,c", 6),
        ("clusters=a,b,c emit.heartbeats.enabled=false", 0),
        ("clusters=a,b,c a->b.emit.heartbeats.enabled=false a->c.emit.heartbeats.enabled=false", 4),
        (
            "clusters=a,b,c,d,e,f emit.heartbeats.enabled=false a->b.enabled=true a->c.enabled=true"
            " a->d.enabled=true a->e.enabled=false a->f.enabled=false",
            3,
        ),
        (
            "clusters=central,local_one,local_two,beats_emitter emit.heartbeats.enabled=false"
            " central->local_one.enabled=true central->local_two.enabled=true"
            " beats_emitter->central.emit.heartbeats.enabled=true",
            3,
        ),
    ],
)
def test_which_pairs_are_started(lines: str, expected: int) -> None:
    """MirrorMakerConfigTest.testClusterPairs*: enabled flows, and flows that beat."""
    properties, findings = raw(lines), Findings("f")
    providers, _ = providers_of(properties, {})
    aliases = clusters_of(properties, providers, findings)
    assert expected == len(pairs_of(properties, aliases, providers, findings))


def client(role: str, side: str = "source", **properties: str) -> dict[str, str]:
    given = {key.replace("__", "."): Property(value, Origin("flow")) for key, value in properties.items()}
    return texts(precedence.connector_client(given, side, role))


def test_the_source_consumer_is_exactly_this() -> None:
    """MirrorConnectorConfigTest.testSourceConsumerConfig; client.id is the connection's."""
    expected = {
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": "120000",
        "bootstrap.servers": "s:1",
    }
    found = client(
        "consumer",
        consumer__max__poll__interval__ms="120000",
        source__cluster__bootstrap__servers="s:1",
        fetch__min__bytes="5",
        target__consumer__fetch__min__bytes="6",
        consumer__enable__auto__commit="true",
    )
    assert expected == found


@pytest.mark.parametrize("prefix", ["", "source__"])
def test_latest_overrides_earliest(prefix: str) -> None:
    """MirrorConnectorConfigTest: consumer.auto.offset.reset and source.consumer.auto.offset.reset."""
    assert (
        "latest"
        == client("consumer", **{f"{prefix}consumer__auto__offset__reset": "latest"})["auto.offset.reset"]
    )


@pytest.mark.parametrize("prefix", ["", "source__"])
def test_producer_and_admin_properties(prefix: str) -> None:
    """MirrorConnectorConfigTest.testSourceProducerConfig and testSourceAdminConfig."""
    assert {"acks": "1"} == client("producer", **{f"{prefix}producer__acks": "1"})
    idle = {f"{prefix}admin__connections__max__idle__ms": "10000"}
    assert {"connections.max.idle.ms": "10000"} == client("admin", **idle)
    target = {f"{prefix.replace('source', 'target')}admin__connections__max__idle__ms": "10000"}
    assert {"connections.max.idle.ms": "10000"} == client("admin", "target", **target)


def test_the_sides_prefix_beats_the_roles() -> None:
    """`source.consumer.x` beats `consumer.x` beats `source.cluster.x`."""
    found = client(
        "consumer",
        source__cluster__security__protocol="weak",
        consumer__security__protocol="middle",
        source__consumer__security__protocol="strong",
    )
    assert "strong" == found["security.protocol"]


@pytest.mark.parametrize(
    "stronger", ["a.security.protocol=SSL", "a.consumer.security.protocol=SSL", "security.protocol=SSL"]
)
def test_a_flows_own_consumer_key_fills_in_only(stronger: str) -> None:
    """MM2 turns a cluster's keys into `source.consumer.*`, which only its long name beats for a flow."""
    lines = f"clusters=a,b a.bootstrap.servers=a:1 b.bootstrap.servers=b:1 {stronger}"
    weak, strong = (f"a->b.{it}.security.protocol={it}" for it in ("consumer", "source.consumer"))

    def found(text: str) -> str:
        connector = precedence.connector_config(raw(text), "a", "b")
        return texts(precedence.connector_client(connector, "source", "consumer"))["security.protocol"]

    assert ["SSL", "source.consumer"] == [found(f"{lines} {more}") for more in (weak, strong)]
    assert "consumer" == found(f"{lines.removesuffix(stronger)} {weak}")


def test_the_data_producer_is_the_workers() -> None:
    """2.5: `b.producer.*`, then `a->b.producer.override.*`; `target.producer.*` is of MM2's own producers."""
    properties = raw(
        "clusters=a,b b.bootstrap.servers=b:1 b.producer.linger.ms=5 b.producer.acks=1"
        " a->b.producer.override.linger.ms=7 a->b.target.producer.linger.ms=9"
    )
    connector = precedence.connector_config(properties, "a", "b")
    found = texts(precedence.data_producer(precedence.worker_config(properties, "a", "b"), connector))
    assert {"bootstrap.servers": "b:1", "linger.ms": "7", "acks": "1"} == found

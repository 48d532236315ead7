"""Files of Strimzi, connect-standalone and MirrorMaker 1 become an mm2.properties; no line is lost in silence."""

from __future__ import annotations

import json
from pathlib import Path

import javaproperties
import pytest
import yaml

from twinlog.cli.main import main
from twinlog.config.flow.load import resolve_text
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ConfigError
from twinlog.migration.imports.connectors import EquivalentFile
from twinlog.migration.imports.forms import NO_POSITIONS, NO_TOPIC, import_files

V1BETA2 = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: shop
  namespace: kafka
  labels: {team: shop}
spec:
  version: 3.9.0
  replicas: 2
  connectCluster: west
  clusters:
    - alias: east
      bootstrapServers: east-kafka-bootstrap:9093
      authentication:
        type: scram-sha-512
        username: mirror
        passwordSecret: {secretName: east-mirror, password: password}
      tls:
        trustedCertificates:
          - {secretName: east-ca, certificate: ca.crt}
          - {secretName: east-old-ca, certificate: ca.crt}
    - alias: west
      bootstrapServers: west-kafka-bootstrap:9093
      authentication:
        type: tls
        certificateAndKey: {secretName: west-mirror, certificate: user.crt, key: user.key}
      tls:
        trustedCertificates:
          - {secretName: west-ca, pattern: "*.crt"}
      config:
        config.storage.replication.factor: -1
        producer.linger.ms: 20
    - alias: north
      bootstrapServers: north:9092
  mirrors:
    - sourceCluster: east
      targetCluster: west
      sourceConnector:
        tasksMax: 4
        autoRestart: {enabled: true}
        config:
          replication.factor: 3
          sync.topic.acls.enabled: false
          topics: ignored
      checkpointConnector:
        config:
          sync.group.offsets.enabled: "true"
      topicsPattern: "orders|payments"
      topicsBlacklistPattern: "old"
      topicsExcludePattern: "tmp.*"
      groupsPattern: "billing.*"
    - sourceCluster: north
      targetCluster: west
      sourceConnector: {}
"""

V1 = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: shop}
spec:
  target:
    alias: west
    bootstrapServers: west:9092
    groupId: shop-group
    configStorageTopic: shop-configs
    statusStorageTopic: shop-status
    offsetStorageTopic: shop-offsets
  mirrors:
    - source: {alias: east, bootstrapServers: "east:9092"}
      sourceConnector: {}
      topicsPattern: .*
"""


def written(tmp_path: Path, **files: str) -> list[Path]:
    """Write files, by name with an underscore for its dot."""
    paths = [tmp_path / name.replace("_", ".") for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    return paths


def flow_of(imported: EquivalentFile, name: str = "east->west") -> FlowSettings:
    return resolve_text(imported.text, Path("mm2.properties")).configuration.flows[name]


def reasons(imported: EquivalentFile) -> dict[str, str]:
    return {it.key: it.why for it in imported.left_out}


def test_a_resource_of_strimzi_with_its_clusters(tmp_path: Path) -> None:
    """The older form: clusters, addresses, logins, patterns, positions."""
    imported = import_files(written(tmp_path, mm2_yaml=V1BETA2), flow="east->west")
    lines = javaproperties.loads(imported.text)
    expected = {
        "clusters": "east, west",
        "east.bootstrap.servers": "east-kafka-bootstrap:9093",
        "east.security.protocol": "SASL_SSL",
        "east.sasl.mechanism": "SCRAM-SHA-512",
        "east.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="mirror" password="${dir:/run/secrets/east-mirror:password}";',
        "east.ssl.truststore.certificates": "${dir:/run/secrets/east-ca:ca.crt}\n"
        "${dir:/run/secrets/east-old-ca:ca.crt}",
        "west.security.protocol": "SSL",
        "west.ssl.keystore.certificate.chain": "${dir:/run/secrets/west-mirror:user.crt}",
        "west.ssl.keystore.key": "${dir:/run/secrets/west-mirror:user.key}",
        "west.offset.storage.topic": "mirrormaker2-cluster-offsets",
        "east->west.producer.override.linger.ms": "20",
        "east->west.enabled": "true",
        "east->west.topics": "orders|payments",
        "east->west.topics.exclude": "tmp.*",
        "east->west.groups": "billing.*",
        "east->west.emit.heartbeats.enabled": "false",
        "east->west.twinlog.connector.name": "east->west.MirrorSourceConnector",
    }
    assert expected == {key: lines.get(key) for key in expected}
    flow = flow_of(imported)
    assert (3, False, True) == (flow.replication_factor, flow.sync_topic_acls, flow.sync_group_offsets)


def test_what_of_the_resource_has_no_place_is_named(tmp_path: Path) -> None:
    """Every key that the file does not say, with its reason."""
    imported = import_files(written(tmp_path, mm2_yaml=V1BETA2), flow="east->west")
    assert {
        "metadata.labels",
        "spec.version",
        "spec.replicas",
        "spec.clusters: north",
        "spec.mirrors[1]",
        "west.config.config.storage.replication.factor",
        "west.tls.trustedCertificates[0]",
        "sourceConnector.autoRestart",
        "sourceConnector.config.topics",
    } == set(reasons(imported))
    assert "import it by --flow 'north->west'" in reasons(imported)["spec.mirrors[1]"]


def test_a_resource_of_strimzi_with_a_target(tmp_path: Path) -> None:
    """The newer form has its offsets topic beside the target, and no heartbeats."""
    imported = import_files(written(tmp_path, mm2_yaml=V1))
    flow = flow_of(imported)
    assert ("shop-offsets", True, False, False) == (
        flow.offsets_topic,
        flow.enabled,
        flow.emit_heartbeats,
        flow.emit_checkpoints,
    )
    assert {"west.groupId", "west.configStorageTopic", "west.statusStorageTopic"} == set(reasons(imported))


def test_json_of_kubectl_is_the_same_resource(tmp_path: Path) -> None:
    """A List with one item, as `kubectl get -o json` writes it, gives the same file."""
    document = {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(V1)]}
    of_json = import_files(written(tmp_path, mm2_json=json.dumps(document)))
    assert import_files(written(tmp_path, mm2_yaml=V1)).text == of_json.text


def test_other_resources_in_the_file_are_named(tmp_path: Path) -> None:
    """A Kafka beside the resource is left out, and that is said."""
    (path,) = written(tmp_path, mm2_yaml=f"{V1}---\nkind: Kafka\n")
    assert import_files([path]).warnings == (f"{path}: Kafka is left out: it is no KafkaMirrorMaker2",)


def test_positions_on_another_cluster_switch_the_flow_off(tmp_path: Path) -> None:
    """Without positions everything would be copied again."""
    text = V1BETA2.replace("connectCluster: west", "connectCluster: east")
    imported = import_files(written(tmp_path, mm2_yaml=text), flow="east->west")
    enabled = javaproperties.loads(imported.text)["east->west.enabled"]
    assert ("false", True) == (enabled, NO_POSITIONS in imported.warnings)
    assert {"spec.connectCluster", "west.config.producer.linger.ms"} <= set(reasons(imported))


@pytest.mark.parametrize(
    ("before", "named"),
    [
        ("  replicas: 2", "spec.extra"),
        ("    - alias: east", "east.extra"),
        ("        username: mirror", "east.authentication.extra"),
        ("      topicsPattern:", "mirror.extra"),
        ("        tasksMax: 4", "sourceConnector.extra"),
    ],
)
def test_a_key_that_nobody_knows_is_named(tmp_path: Path, before: str, named: str) -> None:
    """At every level of the resource."""
    blanks = " " * (len(before) - len(before.lstrip(" -")))
    line, rest = V1BETA2[V1BETA2.index(before) :].split("\n", 1)
    text = V1BETA2[: V1BETA2.index(before)] + f"{line}\n{blanks}extra: 1\n{rest}"
    assert named in reasons(import_files(written(tmp_path, mm2_yaml=text), flow="east->west"))


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("type: scram-sha-512", "type: oauth", "authentication 'oauth' of east has no translation"),
        ("sourceCluster: east", "sourceCluster: south", "spec.clusters has no alias 'south'"),
        ("  mirrors:\n", "  mirrors: 3\n  unused:\n", "mirrors is no list of mappings"),
        ("kind: KafkaMirrorMaker2", "kind: [", "is no YAML at line"),
        ("kind: KafkaMirrorMaker2", "kind: KafkaConnect", "holds no connector"),
    ],
)
def test_a_resource_that_cannot_be_read_is_refused(tmp_path: Path, old: str, new: str, part: str) -> None:
    """One line that names what is wrong; nothing is guessed."""
    with pytest.raises(ConfigError) as caught:
        import_files(
            written(tmp_path, mm2_yaml=V1BETA2.replace(old, new)), flow="east->west" * ("Connect" not in new)
        )
    assert part in str(caught.value)


def test_one_of_several_mirrors_has_to_be_chosen(tmp_path: Path) -> None:
    """They are listed."""
    with pytest.raises(ConfigError) as caught:
        import_files(written(tmp_path, mm2_yaml=V1BETA2))
    assert "the mirrors are east->west, north->west" in str(caught.value)


WORKER = "bootstrap.servers=west:9092\noffset.storage.file.filename=/tmp/connect.offsets\n"
CONNECTOR = """\
name=mirror
connector.class=org.apache.kafka.connect.mirror.MirrorSourceConnector
source.cluster.alias=east
target.cluster.alias=west
source.cluster.bootstrap.servers=east:9092
target.cluster.bootstrap.servers=west:9092
topics=orders
"""


def test_connect_standalone(tmp_path: Path) -> None:
    """Its positions are in a file of the worker, so the flow is off; the worker's lines are named."""
    imported = import_files(written(tmp_path, worker_properties=WORKER, mirror_properties=CONNECTOR))
    lines = javaproperties.loads(imported.text)
    names = ("enabled", "topics", "twinlog.connector.name")
    assert ["false", "orders", "mirror"] == [lines[f"east->west.{name}"] for name in names]
    assert {"bootstrap.servers", "offset.storage.file.filename"} == set(reasons(imported))
    assert (NO_POSITIONS,) == imported.warnings


@pytest.mark.parametrize(
    ("topic", "enabled", "warnings"), [("", "false", (NO_TOPIC,)), ("connect-offsets", "true", ())]
)
def test_connectors_without_the_topic_of_their_positions(
    tmp_path: Path, topic: str, enabled: str, warnings: tuple[str, ...]
) -> None:
    """If it is not named, where they stopped is not found, so the flow is off."""
    connector = json.dumps({**javaproperties.loads(CONNECTOR), "enabled": "true"})
    imported = import_files(written(tmp_path, mirror_json=connector), topic)
    assert enabled == javaproperties.loads(imported.text)["east->west.enabled"]
    assert (warnings, not topic) == (imported.warnings, "enabled" in reasons(imported))


def test_a_byte_order_mark_before_json_or_yaml_means_nothing(tmp_path: Path) -> None:
    """PowerShell writes one."""
    plain = {"c_json": json.dumps(javaproperties.loads(CONNECTOR)), "m_yaml": V1}
    for name, content in plain.items():
        (expected,) = written(tmp_path, **{name: content})
        (marked,) = written(tmp_path, **{f"marked_{name}": f"\ufeff{content}"})
        assert import_files([expected]).text == import_files([marked]).text


CONSUMER = """\
bootstrap.servers=east:9092
group.id=mm1
auto.offset.reset=earliest
security.protocol=PLAINTEXT
fetch.max.bytes=1000000
zookeeper.connect=zk:2181
"""
PRODUCER = "bootstrap.servers=west:9092\nlinger.ms=50\nacks=all\nproducer.type=async\n"


def test_mirror_maker_1(tmp_path: Path) -> None:
    """Unchanged names, the whitelist, both clients; off until it is taken over from its group."""
    files = written(tmp_path, producer_properties=PRODUCER, consumer_properties=CONSUMER)
    imported = import_files(files, flow="east->west", topics="orders|pay.*")
    flow = flow_of(imported)
    assert (False, ("orders|pay.*",)) == (flow.enabled, flow.topics.include)
    assert "orders" == flow.policy.format_remote_topic("east", "orders")
    assert {"group.id", "auto.offset.reset", "zookeeper.connect", "producer.type"} == set(reasons(imported))
    lines = javaproperties.loads(imported.text)
    assert ("50", "all", "1000000", "PLAINTEXT") == tuple(
        lines[key]
        for key in (
            "west.producer.linger.ms",
            "west.producer.acks",
            "east.consumer.fetch.max.bytes",
            "east.security.protocol",
        )
    )


@pytest.mark.parametrize(
    ("files", "options", "part"),
    [
        ({"c": CONSUMER, "p": PRODUCER}, {"topics": "a"}, "has no names for its clusters"),
        ({"c": CONSUMER, "p": PRODUCER}, {"flow": "a->b"}, "has its topics on its command line"),
        ({"c": CONSUMER, "p": PRODUCER}, {"offset_storage_topic": "t"}, "has no --offset-storage-topic"),
        ({"c": CONSUMER}, {}, "not MirrorMaker 1's two files"),
        ({"c": CONSUMER, "w": WORKER}, {}, "not MirrorMaker 1's two files"),
        ({"m": CONNECTOR}, {"topics": "a"}, "do not fit these files"),
        ({"m": V1}, {"topics": "a"}, "do not fit these files"),
        ({"m": V1, "n": V1}, {}, "several KafkaMirrorMaker2"),
        ({"c": CONSUMER, "j": "[]"}, {}, "is of another tool"),
        ({"c": f"\ufeff{CONSUMER}", "p": PRODUCER}, {}, "starts with a byte order mark"),
        ({"c": "\0".join(CONNECTOR)}, {}, "binary or UTF-16"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(
    tmp_path: Path, files: dict[str, str], options: dict[str, str], part: str
) -> None:
    """An option that would have no effect is refused, too."""
    with pytest.raises(ConfigError) as caught:
        import_files(written(tmp_path, **files), **options)
    assert part in str(caught.value)


def test_the_command_says_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, and the file on stdout."""
    (path,) = written(tmp_path, mm2_yaml=V1)
    assert 0 == main(["migrate", "import", str(path)])
    captured = capsys.readouterr()
    assert "west.groupId is left out: belongs to the Connect workers" in captured.err
    assert javaproperties.loads(captured.out)["east->west.enabled"] == "true"

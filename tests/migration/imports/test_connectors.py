"""MM2's connectors in Kafka Connect become an mm2.properties file that means the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cli.main import main
from twinlog.cli.migration.imports import import_files
from twinlog.config.file.origin import given as given_value
from twinlog.config.file.providers import reveal
from twinlog.config.flow import precedence
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ConfigError, UsageError
from twinlog.migration.imports import forms
from twinlog.migration.imports.connectors import EquivalentFile

PACKAGE = "org.apache.kafka.connect.mirror."
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p#=: \\\\";'
COMMON = {
    "source.cluster.alias": "us-east",
    "target.cluster.alias": "us-west",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "target.cluster.security.protocol": "SASL_SSL",
    "target.cluster.sasl.mechanism": "PLAIN",
    "target.cluster.sasl.jaas.config": JAAS,
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "replication.policy.separator": "_",
}
SOURCE = COMMON | {
    "connector.class": PACKAGE + "MirrorSourceConnector",
    "topics": r"^((?!us-west\_).*)$,orders",
    "replication.factor": -1,
    "sync.topic.acls.enabled": False,
    "tasks.max": 4,
    "use.defaults.from": "source",
    "consumer.isolation.level": "read_uncommitted",
    "consumer.security.protocol": "PLAINTEXT",
    "source.consumer.fetch.max.bytes": "1000000",
    "producer.override.linger.ms": "7",
    "offset-syncs.topic.location": "target",
}
CHECKPOINT = COMMON | {
    "connector.class": PACKAGE + "MirrorCheckpointConnector",
    "groups": "g1, g2",
    "sync.group.offsets.enabled": "true",
    "emit.checkpoints.interval.seconds": 10,
    "offset-syncs.topic.location": "target",
    "tasks.max": 1,
}
HEARTBEAT = COMMON | {
    "connector.class": PACKAGE + "MirrorHeartbeatConnector",
    "emit.heartbeats.interval.seconds": 5,
}


def write(tmp_path: Path, name: str, document: Any) -> Path:
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def equivalent(files: list[Path], offsets: str = "") -> EquivalentFile:
    return forms.import_files(files, offsets)


def imported(tmp_path: Path, *documents: Any, offsets: str = "connect-offsets") -> FlowSettings:
    files = [write(tmp_path, f"{index}.json", document) for index, document in enumerate(documents)]
    path = write(tmp_path, "mm2.properties", equivalent(files, offsets).text)
    return load(path, environ={"TWINLOG_STRICT": "1"}).flows["us-east->us-west"]


POSTED = [
    {"name": "us-east->us-west.MirrorSourceConnector", "config": SOURCE},
    {"name": "us-east->us-west.MirrorCheckpointConnector", "config": CHECKPOINT},
    {"name": "us-east->us-west.MirrorHeartbeatConnector", "config": HEARTBEAT},
]


def test_the_settings_are_the_connectors(tmp_path: Path) -> None:
    """What the connectors say is what the file, read strictly, says."""
    flow = imported(tmp_path, *POSTED)
    expected: dict[str, Any] = {
        "enabled": True,
        "connector_name": "us-east->us-west.MirrorSourceConnector",
        "offsets_topic": "connect-offsets",
        "replication_factor": -1,
        "sync_topic_acls": False,
        "use_defaults_from": "source",
        "offset_syncs_topic_location": "target",
        "sync_group_offsets": True,
        "emit_checkpoints": True,
        "emit_checkpoints_interval_seconds": 10,
        "emit_heartbeats": True,
        "heartbeats_interval_seconds": 5,
    }
    assert expected == {name: getattr(flow, name) for name in expected}
    assert ("g1", "g2") == flow.groups.include
    assert (r"^((?!us-west\_).*)$", "orders") == flow.topics.include
    assert (False, 1_000_000) == (flow.copy.read_committed, flow.copy.fetch_bytes)
    assert "us-east_orders" == flow.policy.format_remote_topic("us-east", "orders")
    assert "u" == (flow.target.connection.sasl and flow.target.connection.sasl.username)
    assert "p#=: \\" == (flow.target.connection.sasl and reveal(flow.target.connection.sasl.password or ""))


@pytest.mark.parametrize("role", precedence.ROLES)
def test_the_clients_are_the_connectors(tmp_path: Path, role: str) -> None:
    """Each client of MM2 gets the same properties from the file as it got from the connector."""
    connector = {key: given_value(str(value)) for key, value in SOURCE.items()}
    flow = imported(tmp_path, *POSTED)
    upstream = {key: value.text for key, value in precedence.source_client(connector, role).items()}
    assert upstream == {key: reveal(value) for key, value in getattr(flow.source, role).items()}
    if role != "producer":  # the data producer is the Connect worker's, which the JSON does not show
        downstream = {key: value.text for key, value in precedence.target_client(connector, role).items()}
        assert downstream == {key: reveal(value) for key, value in getattr(flow.target, role).items()}
    else:
        assert "7" == flow.target.producer["linger.ms"]


@pytest.mark.parametrize(
    "documents",
    [
        [POSTED],
        [[item["config"] for item in POSTED]],
        [{item["name"]: {"info": item} for item in POSTED}],
    ],
)
def test_every_shape_of_the_rest_api(tmp_path: Path, documents: list[Any]) -> None:
    """A list, bare configs, and GET /connectors?expand=info give the same flow but for the name."""
    flow = imported(tmp_path, *documents)
    assert (("g1", "g2"), 5) == (flow.groups.include, flow.heartbeats_interval_seconds)
    assert flow.connector_name in {"MirrorSourceConnector", POSTED[0]["name"]}


def test_what_was_not_running_stays_off(tmp_path: Path) -> None:
    """Only a source connector: no checkpoints, no heartbeats, and none on the way back."""
    path = write(tmp_path, "f", equivalent([write(tmp_path, "s.json", POSTED[0])], "connect-offsets").text)
    configuration = load(path, environ={})
    flow = configuration.flows["us-east->us-west"]
    assert ["us-east->us-west"] == list(configuration.flows)
    assert (True, False, False) == (flow.enabled, flow.emit_checkpoints, flow.emit_heartbeats)
    assert "connect-offsets" == flow.offsets_topic


@pytest.mark.parametrize(
    ("documents", "part"),
    [
        (
            [{"name": "x", "config": SOURCE | {"connector.class": "com.example.Sink"}}],
            "none of MM2's connectors",
        ),
        ([{"name": "x", "config": {"topics": "x"}}], "no connector.class"),
        ([{"config": CHECKPOINT}], "there is no MirrorSourceConnector"),
        ([{"config": SOURCE}, {"config": SOURCE}], "a second MirrorSourceConnector"),
        ([SOURCE, CHECKPOINT | {"source.cluster.alias": "other"}], "is of other->us-west"),
        (
            [SOURCE, CHECKPOINT | {"replication.policy.separator": "-"}],
            "differ in replication.policy.separator",
        ),
        (
            [SOURCE, HEARTBEAT | {"target.cluster.bootstrap.servers": "c:1"}],
            "differ in target.cluster.bootstrap",
        ),
        ([SOURCE, CHECKPOINT | {"topics": "a"}], "differ in topics"),
        (
            [{k: v for k, v in SOURCE.items() if k != "topics"}, CHECKPOINT | {"topics": "a"}],
            "differ in topics",
        ),
        ([{k: v for k, v in SOURCE.items() if k != "source.cluster.alias"}], "has no source.cluster.alias"),
        ([SOURCE | {"topics": ["a"]}], "topics is no plain value"),
        (["{not json"], "is no JSON at line 1"),
        ([{}], "holds no connector"),
        ([[42]], "holds no connector"),
    ],
)
def test_what_cannot_be_imported_is_refused(tmp_path: Path, documents: list[Any], part: str) -> None:
    """One clear line that names the file."""
    with pytest.raises(ConfigError) as caught:
        imported(tmp_path, *documents)
    assert part in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    """The path is named."""
    with pytest.raises(ConfigError) as caught:
        equivalent([tmp_path / "none.json"])
    assert f"{tmp_path}/none.json does not exist" in str(caught.value)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout is the file; --to writes a new one that only its owner may read."""
    source = write(tmp_path, "s.json", POSTED[0])
    import_files([source], "connect-offsets")
    text = capsys.readouterr().out
    target = tmp_path / "out.properties"
    import_files([source], "connect-offsets", to=target)
    assert (text, 0o600) == (target.read_text(), target.stat().st_mode & 0o777)
    with pytest.raises(UsageError):
        import_files([source], "connect-offsets", to=target)


KIP_382 = {
    "name": "us-west-source",
    "connector.class": PACKAGE + "MirrorSourceConnector",
    "source.cluster.alias": "us-west",
    "target.cluster.alias": "us-east",
    "source.cluster.broker.list": "us-west-host1:9091",
    "topics": ".*",
}


def test_a_file_that_could_not_work_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """KIP-382's own example has no address that MM2 reads: said with the reason, exit 2, nothing on stdout or disk."""
    source, target = write(tmp_path, "s.json", KIP_382), tmp_path / "mm2.properties"
    code = main(["migrate", "import", str(source), "--to", str(target)])
    captured = capsys.readouterr()
    assert (2, "", False) == (code, captured.out, target.exists())
    assert "us-west-source: source.cluster.broker.list is left out: MM2 does not read it" in captured.err
    assert "error: the file would not work and is not written" in captured.err
    assert "us-west.bootstrap.servers is missing" in captured.err
    assert "us-east.bootstrap.servers is missing" in captured.err


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        (
            [POSTED[0] | {"initial_state": "PAUSED"}],
            {"initial_state": "is no property of a connector"},
        ),
        ([SOURCE | {"groups": None}], {"groups": "is null"}),
        (
            [SOURCE | {"source.cluster.fetch.max.bytes": "1"}],
            {
                "source.cluster.fetch.max.bytes": "MM2 takes only addresses and security from source.cluster.*;"
                " give it to a role, such as source.consumer.fetch.max.bytes"
            },
        ),
        (
            [SOURCE | {"emit.heartbeats.enabled": "true", "sync.group.offsets.enabled": "true"}],
            {
                "emit.heartbeats.enabled": "no MirrorHeartbeatConnector that is enabled is among the connectors, and no"
                " other reads it",
                "sync.group.offsets.enabled": "no MirrorCheckpointConnector that is enabled is among the connectors,"
                " and no other reads it",
            },
        ),
        (
            [SOURCE | {"groups": "other"}, CHECKPOINT, HEARTBEAT | {"enabled": "false"}],
            {
                "groups": "that of MirrorCheckpointConnector counts",
                "tasks.max": "that of MirrorSourceConnector counts",
                "enabled": "a heartbeat connector writes heartbeats whatever it says",
            },
        ),
    ],
)
def test_what_is_left_out_is_named_with_its_reason(
    tmp_path: Path, documents: list[Any], expected: dict[str, str]
) -> None:
    """What somebody wrote and the file does not say, key by key."""
    files = [write(tmp_path, f"{index}.json", document) for index, document in enumerate(documents)]
    found = {it.key: it.why for it in equivalent(files, "connect-offsets").left_out}
    assert expected == found


def test_a_checkpoint_connector_that_is_off_stays_off(tmp_path: Path) -> None:
    """Connect runs no task for it, whatever its other keys say; the flow itself goes on."""
    flow = imported(tmp_path, SOURCE, CHECKPOINT | {"enabled": "false"}, HEARTBEAT)
    assert (True, False, False) == (flow.enabled, flow.emit_checkpoints, flow.sync_group_offsets)


WRITTEN = st.dictionaries(
    st.sampled_from([
        "topics",
        "groups",
        "tasks.max",
        "emit.heartbeats.interval.seconds",
        "source.cluster.x.y",
        "enabled",
    ]),
    st.sampled_from(["1", "7", "true", "false"]),
)


@given(WRITTEN, WRITTEN)
def test_no_line_of_the_json_is_lost_in_silence(
    tmp_path_factory: pytest.TempPathFactory, of_source: dict[str, str], of_checkpoints: dict[str, str]
) -> None:
    """Each is in the file with its value, or is named."""
    folder = tmp_path_factory.mktemp("c")
    documents = [SOURCE | of_source, CHECKPOINT | {"topics": SOURCE["topics"]} | of_checkpoints]
    files = [write(folder, f"{index}.json", it) for index, it in enumerate(documents)]
    try:
        made = equivalent(files)
    except ConfigError:
        return  # they contradict each other, and it says in what
    lines = javaproperties.loads(made.text)
    named = {(it.owner, it.key) for it in made.left_out}
    aliases = {"source.cluster.": "us-east.", "target.cluster.": "us-west."}
    lost = [
        (name, key)
        for name, document in zip(
            ("MirrorSourceConnector", "MirrorCheckpointConnector"), documents, strict=True
        )
        for key, value in (
            (key, str(it).lower() if isinstance(it, bool) else str(it)) for key, it in document.items()
        )
        if key not in {"name", "connector.class", "source.cluster.alias", "target.cluster.alias"}
        and (name, key) not in named
        and value
        != lines.get(
            next(
                (key.replace(side, alias) for side, alias in aliases.items() if key.startswith(side)),
                f"us-east->us-west.{key}",
            )
        )
    ]
    assert [] == lost

"""A connector of Confluent Replicator becomes an mm2.properties; no line is lost in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from twinlog.config.flow.load import resolve_text
from twinlog.errors import ConfigError
from twinlog.migration.imports.forms import Imported, import_files

CONFIG: dict[str, Any] = {
    "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
    "tasks.max": 4,
    "src.key.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "src.value.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
    "src.kafka.bootstrap.servers": "east:9092",
    "src.kafka.security.protocol": "PLAINTEXT",
    "src.kafka.client.id": "mine",
    "src.consumer.fetch.max.bytes": "1000000",
    "dest.kafka.bootstrap.servers": "west:9092",
    "dest.topic.replication.factor": "1",
    "topic.whitelist": "orders.eu, payments",
    "topic.regex": "log-[a-z]+",
    "topic.blacklist": "log-x",
    "topic.config.sync": "false",
    "topic.poll.interval.ms": "30000",
    "confluent.license": "secret",
}


def imported(tmp_path: Path, flow: str = "east->west", **changed: Any) -> Imported:
    config = {key: it for key, it in (CONFIG | changed).items() if it is not None}
    path = tmp_path / "replicator.json"
    path.write_text(json.dumps({"name": "replicate-east", "config": config}))
    return import_files([path], flow=flow)


def test_it_means_the_same(tmp_path: Path) -> None:
    """Unchanged names, the list and the pattern, both clients, intervals in seconds; off until it is taken over."""
    made = imported(tmp_path)
    flow = resolve_text(made.file.text, Path("mm2.properties")).configuration.flows["east->west"]
    assert (False, (r"orders\.eu", "payments", "log-[a-z]+")) == (flow.enabled, flow.topics.include)
    assert "log-x" in flow.topics.exclude
    assert "orders.eu" == flow.policy.format_remote_topic("east", "orders.eu")
    lines = javaproperties.loads(made.file.text)
    assert ("1000000", "PLAINTEXT", "false", "30", "1", "4") == tuple(
        lines[key]
        for key in (
            "east.consumer.fetch.max.bytes",
            "east.security.protocol",
            "east->west.sync.topic.configs.enabled",
            "east->west.refresh.topics.interval.seconds",
            "east->west.replication.factor",
            "east->west.tasks.max",
        )
    )
    assert {
        "name",
        "connector.class",
        "src.key.converter",
        "src.value.converter",
        "src.kafka.client.id",
        "confluent.license",
    } == {it.key for it in made.file.left_out}
    (warning,) = made.warnings
    assert "twinlog takeover --source-group replicate-east" in warning


def test_its_own_group_counts(tmp_path: Path) -> None:
    """If it is named."""
    (warning,) = imported(tmp_path, **{"src.consumer.group.id": "mine too"}).warnings
    assert "--source-group 'mine too'" in warning


@pytest.mark.parametrize("separator", [".", "-"])
def test_the_alias_before_the_name_is_the_default_policy(tmp_path: Path, separator: str) -> None:
    """The alias is chosen on the command line."""
    made = imported(tmp_path, **{"topic.rename.format": f"east{separator}${{topic}}"})
    flow = resolve_text(made.file.text, Path("mm2.properties")).configuration.flows["east->west"]
    assert f"east{separator}payments" == flow.policy.format_remote_topic("east", "payments")


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"topic.rename.format": "${topic}.replica"}, "topic.rename.format = ${topic}.replica"),
        ({"topic.rename.format": "west.${topic}"}, "topic.rename.format = west.${topic}"),
        ({"topic.rename.format": "east"}, "topic.rename.format = east"),
        ({"src.value.converter": "io.confluent.connect.avro.AvroConverter"}, "changes records on their way"),
        ({"topic.regex": "a{1,2}"}, "topic.regex has a comma"),
        ({"topic.regex": None, "topic.whitelist": None}, "neither topic.whitelist nor topic.regex"),
        ({"flow": ""}, "has no names for its clusters"),
    ],
)
def test_what_has_no_equal_is_refused(tmp_path: Path, changed: dict[str, Any], part: str) -> None:
    """One line that names the key."""
    with pytest.raises(ConfigError) as caught:
        imported(tmp_path, **changed)
    assert part in str(caught.value)


def test_json_of_any_kind_is_the_same_file(tmp_path: Path) -> None:
    """Connect takes booleans and numbers as well as strings; a value within a value is nothing it takes."""
    as_text, plain = imported(tmp_path), imported(tmp_path, **{"topic.config.sync": False})
    assert as_text.file.text == plain.file.text
    with pytest.raises(ConfigError, match=r"topic\.regex is no plain value"):
        imported(tmp_path, **{"topic.regex": ["a", "b"]})

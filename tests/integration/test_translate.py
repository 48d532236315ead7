"""`twinlog translate` on real brokers: every offset to the right record, both ways, and where rights are missing.

Costs about 40 s with its brokers and a Java program.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab import (
    Seen,
    commit_group,
    configure,
    create_topic,
    cycle,
    file_and_flow,
    produce,
    produce_transaction,
    read_with_offsets,
)
from twinlog.cli.main import main
from twinlog.config.flow.load import load

NOW = int(time.time() * 1000)


def some(first: int, count: int) -> list[Seen]:
    return [Seen(b"%d" % n, b"value %d" % n, NOW + n) for n in range(first, first + count)]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main([*words, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_every_offset_of_a_topic_with_gaps(
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Transactions, aborted ones, several cycles: by a file of all offsets there, and by that file back again."""
    topic = create_topic(cluster_a, unique_topic("gaps"))
    config, flow = file_and_flow(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
    )
    for first in range(0, 60, 20):
        produce(cluster_a, topic, some(first, 5))
        produce_transaction(cluster_a, topic, some(first + 5, 10))
        produce_transaction(cluster_a, topic, some(900, 3), commit=False)
        produce(cluster_a, topic, some(first + 15, 5))
        assert "done" == cycle(flow).state
    source = read_with_offsets(cluster_a, topic)
    there = {seen.value: offset for offset, seen in read_with_offsets(cluster_b, f"A.{topic}")}
    end = source[-1][0] + 1

    file, moved, back = tmp_path / "all.csv", tmp_path / "moved.csv", tmp_path / "back.csv"
    file.write_text("".join(f"{topic},0,{offset}\n" for offset in range(end)))
    code, rows = run(
        capsys, "translate", "--config", str(config), "--offsets", str(file), "--write", str(moved)
    )
    expected = [there[next(seen.value for at, seen in source if at >= offset)] for offset in range(end)]
    assert 0 == code
    assert expected == [row["downstream_offset"] for row in rows]
    assert {True} == {row["exact"] for row in rows}
    code, _ = run(
        capsys,
        "translate",
        "--config",
        str(config),
        "--reverse",
        "--offsets",
        str(moved),
        "--write",
        str(back),
    )
    assert 0 == code
    firsts = [next(at for at, _ in source if at >= offset) for offset in range(end)]
    assert [f"{topic},0,{offset}" for offset in firsts] == back.read_text().splitlines()

    at, to = 17, expected[17]
    for name, given, wanted in (
        (
            "list.json",
            [{"topic": topic, "partition": 0, "offset": at}],
            [{"topic": f"A.{topic}", "partition": 0, "offset": to}],
        ),
        ("spark.json", {topic: {"0": at}}, {f"A.{topic}": {"0": to}}),
    ):
        (tmp_path / name).write_text(json.dumps(given))
        words = ["--offsets", str(tmp_path / name), "--write", str(tmp_path / f"moved-{name}")]
        code, _ = run(capsys, "translate", "--config", str(config), *words)
        assert (0, wanted) == (code, json.loads((tmp_path / f"moved-{name}").read_text()))

    group = f"g,1:/é {topic}"
    commit_group(cluster_a, group, topic, 17)
    code, [row] = run(capsys, "translate", "--config", str(config), "--group", group)
    assert (0, expected[17]) == (code, row["downstream_offset"])
    code, [row] = run(capsys, "translate", "--config", str(config), "--at", str(source[7][1].timestamp))
    assert (0, source[7][0]) == (code, row["upstream_offset"])
    code, document = run(capsys, "groups", "--config", str(config), "--groups", f".*{topic}")
    [row] = document["flows"][0]["rows"]
    assert expected[17] == row["downstream_offset"]


def test_a_right_that_is_missing_is_named(
    cluster_a: Any,
    secure_cluster: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """READ on an internal topic of the target: one line, exit code 3, and nothing translated."""
    topic = create_topic(cluster_a, unique_topic("hidden"))
    alias = topic.replace("hidden-", "H")
    config = configure(
        tmp_path,
        {alias: cluster_a, "B": secure_cluster.address("SASL_PLAINTEXT")},
        [f"{alias}->B"],
        topics=topic,
        heartbeats__replication__enabled="false",
        emit__heartbeats__enabled="false",
        B__security__protocol="SASL_PLAINTEXT",
        B__sasl__mechanism="PLAIN",
        B__sasl__jaas__config="org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="alice" password="wonder land!";',
        **dict.fromkeys(
            ("offset-syncs__topic__replication__factor", "checkpoints__topic__replication__factor"), "1"
        ),
    )
    flow = load(config).flows[f"{alias}->B"]
    produce(cluster_a, topic, some(0, 5))
    assert 5 == cycle(flow).records
    admin = AdminClient({
        "bootstrap.servers": secure_cluster.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin-password",
    })
    denied = AclBinding(
        ResourceType.TOPIC,
        flow.offset_map_topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.DENY,
    )
    [created] = admin.create_acls([denied]).values()
    created.result(20)
    time.sleep(1)
    for words in (
        ["translate", f"{topic}:0:3"],
        ["migrate", "takeover", "--dry-run"],
        ["groups"],
    ):
        code = main([*words, "--config", str(config)])
        said = capsys.readouterr().err
        assert 3 == code, words
        assert flow.offset_map_topic in said, words

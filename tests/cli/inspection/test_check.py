"""`twinlog check` against real brokers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import create_topic
from twinlog.cli.main import main
from twinlog.lab.kafka.broker import EmbeddedKafka

pytestmark = pytest.mark.integration

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    """A target where the user `dr` may do nothing yet."""
    settings = {"allow.everyone.if.no.acl.found": "false"}
    with EmbeddedKafka(
        "G", listeners=["SASL_PLAINTEXT"], users={"dr": "dr-secret"}, settings=settings
    ) as cluster:
        yield cluster


@pytest.fixture
def orders(cluster_a: EmbeddedKafka, unique_topic: Callable[[str], str]) -> str:
    name = unique_topic("orders")
    return create_topic(cluster_a, name)


def _check(
    capsys: pytest.CaptureFixture[str], folder: Path, source: str, target: str, topics: str
) -> tuple[int, dict[str, Any]]:
    path = folder / "mm2.properties"
    path.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {source}\nB.bootstrap.servers = {target}\n"
        f"A->B.enabled = true\nA->B.topics = {topics}\n"
        "heartbeats.replication.enabled = false\n"  # tests that share the broker may beat into it
    )
    code = main(["check", "--config", str(path), "--output", "json"])
    return code, json.loads(capsys.readouterr().out)["flows"][0]


def _as_dr(cluster: EmbeddedKafka) -> str:
    """Bootstrap servers and the log-in, as the lines of a file."""
    return (
        f"{cluster.address('SASL_PLAINTEXT')}\nB.security.protocol = SASL_PLAINTEXT\n"
        f'B.sasl.mechanism = SCRAM-SHA-512\nB.sasl.jaas.config = {LOGIN} required username="dr" password="dr-secret";'
    )


def test_who_may_do_everything_passes(
    cluster_a: EmbeddedKafka,
    guarded: EmbeddedKafka,
    orders: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A super user lacks nothing, and both clusters are named by their ids."""
    code, flow = _check(capsys, tmp_path, cluster_a.bootstrap_servers, guarded.bootstrap_servers, orders)
    assert (code, flow["passed"], flow["acls"], flow["topics"]) == (0, True, [], 1)
    assert [(it["alias"], it["brokers"]) for it in flow["clusters"]] == [("A", 1), ("B", 1)]
    assert len({it["cluster_id"] for it in flow["clusters"]}) == 2
    assert [it for it in flow["permissions"] if it["required"] and (it["missing"] or it["unknown"])] == []


def test_missing_permissions_are_named_with_the_lines_that_grant_them(
    cluster_a: EmbeddedKafka,
    guarded: EmbeddedKafka,
    orders: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A user without rights on the target: exit 1, nothing missing on the source, prefixed lines."""
    code, flow = _check(capsys, tmp_path, cluster_a.bootstrap_servers, _as_dr(guarded), orders)
    assert (code, flow["passed"], flow["error"]) == (1, False, None)
    assert {it["cluster"] for it in flow["permissions"] if it["missing"]} == {"B"}
    remote = next(line for line in flow["acls"] if "--topic A. " in line)
    assert remote.startswith(f"kafka-acls.sh --bootstrap-server {guarded.address('SASL_PLAINTEXT')} ")
    assert "--allow-principal User:dr " in remote
    assert remote.endswith("--topic A. --resource-pattern-type prefixed")
    assert any(
        "--transactional-id 'twinlog-A->B-' --resource-pattern-type prefixed" in it for it in flow["acls"]
    )
    assert "dr-secret" not in json.dumps(flow)


def test_a_wrong_password_is_exit_3(
    cluster_a: EmbeddedKafka,
    guarded: EmbeddedKafka,
    orders: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The cluster answers and refuses the login."""
    login = _as_dr(guarded).replace('"dr-secret"', '"wrong"')
    code, flow = _check(capsys, tmp_path, cluster_a.bootstrap_servers, login, orders)
    assert (code, flow["error"]["code"]) == (3, "authentication")


def test_one_cluster_under_two_names_is_refused(
    cluster_a: EmbeddedKafka, orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its topics would be copied onto themselves."""
    servers = cluster_a.bootstrap_servers
    code, flow = _check(capsys, tmp_path, servers, servers, orders)
    assert (code, flow["error"]["code"]) == (2, "same-cluster")


def test_a_topic_that_is_named_but_not_there_is_asked_about(
    cluster_a: EmbeddedKafka, guarded: EmbeddedKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be hidden from this user, so its permissions are in the report."""
    code, flow = _check(capsys, tmp_path, cluster_a.bootstrap_servers, guarded.bootstrap_servers, "not-there")
    assert (code, flow["topics"]) == (0, 1)
    assert ("A", "not-there") in {(it["cluster"], it["name"]) for it in flow["permissions"]}
    assert flow["notes"][0] == (
        "A shows no topic not-there, which A->B.topics names: misspelt, or not to be seen"
    )


def test_patterns_that_select_no_topic_are_named(
    cluster_a: EmbeddedKafka, guarded: EmbeddedKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Heartbeats alone would pass every check."""
    code, flow = _check(
        capsys, tmp_path, cluster_a.bootstrap_servers, guarded.bootstrap_servers, "not-there.*"
    )
    assert 0 == code
    assert flow["notes"][0].startswith("A shows no topic that A->B.topics selects (not-there.*)")

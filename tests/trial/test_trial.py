"""`twinlog check --try` on real brokers (`parts`, `transactions`).  Cost: 40 s, three brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.cluster.api import Cluster
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.trial import run, transactions
from twinlog.trial.parts import MAKE, PLACE, SEND, TRANSACT

pytestmark = pytest.mark.integration

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = {"nobody": "pw", "untransactional": "pw", "keeper": "pw"}


def login(user: str) -> str:
    """Log in on B, as lines of a file."""
    return (
        "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = SCRAM-SHA-512\n"
        f'B.sasl.jaas.config = {LOGIN} required username="{user}" password="pw";\n'
    )


def reach(cluster: EmbeddedKafka) -> Cluster:
    """Reach a cluster as one who may do everything."""
    host, _, port = cluster.bootstrap_servers.partition(":")
    servers = ((host, int(port)),)
    return Cluster(ClusterSettings("X", cluster.bootstrap_servers, ConnectionSettings("X", servers)))


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    """A target whose users may do what they are granted."""
    settings = {"allow.everyone.if.no.acl.found": "false"}
    with EmbeddedKafka("G", listeners=["SASL_PLAINTEXT"], users=USERS, settings=settings) as cluster:
        yield cluster


def grant(cluster: EmbeddedKafka, user: str, *rights: tuple[str, str, str]) -> None:
    """Grant operations on resources of a prefix."""
    acls = [AclBinding(kind, "PREFIXED", name, f"User:{user}", "*", it, "ALLOW") for kind, name, it in rights]
    reach(cluster).create_acls(acls).require()


def left(cluster: EmbeddedKafka) -> list[str]:
    """Return the names of trials that a cluster has."""
    seen = reach(cluster)
    names = [*seen.topic_names(), *(it.group for it in seen.groups())]
    return [name for name in names if "twinlog-try-" in name]


@pytest.fixture
def tried(tmp_path: Path, cluster_a: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """`tried(target)` runs the command; returns exit code, rows by cluster and name, and stderr."""

    def run_command(target: str, lines: str = "") -> tuple[int, dict[tuple[str, str], Any], str]:
        path = tmp_path / "mm2.properties"
        path.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {cluster_a.bootstrap_servers}\n"
            f"B.bootstrap.servers = {target}\n{lines}A->B.enabled = true\nA->B.topics = no-such\n"
            "heartbeats.replication.enabled = false\n"
        )
        code = main(["check", "--try", "--config", str(path), "--output", "json"])
        said = capsys.readouterr()
        (flow,) = json.loads(said.out)["flows"]
        return code, {(it["cluster"], it["tried"]): it for it in flow["tried"]}, said.err

    return run_command


def answers(rows: dict[tuple[str, str], Any]) -> dict[str, str]:
    """Return the answers of the target."""
    return {name: it["answer"] for (alias, name), it in rows.items() if alias == "B"}


def test_everything_works_and_nothing_is_left(tried: Any, cluster_a: Any, cluster_b: Any) -> None:
    """On brokers as they come."""
    code, rows, said = tried(cluster_b.bootstrap_servers)
    wrong = {key: it for key, it in rows.items() if it["answer"] not in {"works", "not tried"}}
    assert ({}, 0) == (wrong, code), said
    assert "works" == rows["B", "read with a drill's clone"]["answer"]
    assert [[], []] == [left(it) for it in (cluster_a, cluster_b)]


def test_a_user_who_may_do_nothing_gets_rows_and_no_error(tried: Any, guarded: Any) -> None:
    """Each says what to grant; what could not be made is not named as left."""
    code, rows, said = tried(guarded.address("SASL_PLAINTEXT"), login("nobody"))
    made = rows["B", MAKE]
    assert (1, "refused", "not tried") == (code, made["answer"], rows["B", SEND]["answer"])
    assert "grant CREATE on topic A.twinlog-try-*" == made["remedy"]
    assert "may keep" not in said
    assert [] == left(guarded)


def test_a_user_without_a_transactional_id(tried: Any, guarded: Any) -> None:
    """What needs no transaction is tried all the same, and deleted."""
    topic = [("TOPIC", "A.", it) for it in ("CREATE", "WRITE", "READ", "DELETE", "ALTER", "ALTER_CONFIGS")]
    grant(guarded, "untransactional", *topic, ("GROUP", "drill-", "READ"), ("GROUP", "drill-", "DELETE"))
    code, rows, said = tried(guarded.address("SASL_PLAINTEXT"), login("untransactional"))
    found = answers(rows)
    assert (1, "works", "refused", "not tried") == (code, found[MAKE], found[TRANSACT], found[SEND]), said
    assert {"works"} == {found[it] for it in (PLACE, "delete a topic", "delete a group")}
    assert [] == left(guarded)


def test_what_may_not_be_deleted_is_named(tried: Any, guarded: Any) -> None:
    """With the right that is missing."""
    grant(guarded, "keeper", *(("TOPIC", "A.", it) for it in ("CREATE", "WRITE", "READ")))
    code, rows, said = tried(guarded.address("SASL_PLAINTEXT"), login("keeper"))
    (name,) = left(guarded)
    reach(guarded).delete_topics([name]).require()
    assert (1, "refused") == (code, rows["B", "delete a topic"]["answer"])
    assert f"topic {name}" in said.partition("may keep")[2]


def test_a_quota_shows_as_throttle(tried: Any, cluster_b: Any) -> None:
    """And costs no more than some seconds."""
    target = reach(cluster_b)
    entity, key = QuotaEntity.of({"client-id": None}), "producer_byte_rate"
    target.alter_quotas({entity: {key: 50_000.0}}).require()
    try:
        began = time.monotonic()
        code, rows, said = tried(cluster_b.bootstrap_servers)
    finally:
        target.alter_quotas({entity: {key: None}}).require()
    assert 0 == code, said
    assert "throttled for" in rows["B", "commit often, and much"]["said"]
    assert time.monotonic() - began < 90


def test_a_broker_that_dies_in_the_middle(tried: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is shown, the rest is not tried, and what may be left is named."""
    with EmbeddedKafka("D") as dying:

        def dies(bench: Any) -> str:
            dying.kill()
            return transactions.fence(bench)

        parts = [replace(it, do=dies) if it.do is transactions.fence else it for it in run.TARGET]
        monkeypatch.setattr(run, "TARGET", parts)
        code, rows, said = tried(dying.bootstrap_servers)
    found = answers(rows)
    assert (1, "works", "failed") == (code, found[SEND], found["fence an older writer"])
    assert "not tried" == found["see how full disks are"]
    assert "topic A.twinlog-try-" in said.partition("may keep")[2]

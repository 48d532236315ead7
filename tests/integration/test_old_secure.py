"""Sources of Kafka 2.0 and 2.4 that let nobody in without TLS and a password, and allow nothing without an ACL.

Costs about a minute a version, a broker and a ZooKeeper with its users included.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from least_privilege import grants
from test_takeover import run_cli
from test_unreadable_state import administrator

from lab import Seen, commit_group, committed, configure, create_topic, cycle, produce, read
from twinlog.cli.main import main
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.permissions.needs import Names, needs
from twinlog.config.flow.load import load
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.certificates import make_certificates
from twinlog.lane.fence.fence import transactional_id

pytestmark = pytest.mark.long

NOW = int(time.time() * 1000)
RECORDS = [Seen(b"%d" % n, b"value %d" % n, NOW + n) for n in range(100)]
MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
PASSWORD = "wonder land!"


@pytest.fixture(scope="module", params=["2.0.1", "2.4.1"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A guarded broker of long ago."""
    options: dict[str, Any] = {
        "listeners": ["SSL", "SASL_SSL"],
        "users": {"alice": PASSWORD},
        "settings": {"allow.everyone.if.no.acl.found": "false"},
        "jvm": (),
    }
    folder = tmp_path_factory.mktemp("old") / "kafka"
    with EmbeddedKafka("old", folder, request.param, **options) as cluster:
        yield cluster


@dataclass(frozen=True)
class Stage:
    """A topic, a group, and a file whose flow may do what docs/security.md says."""

    topic: str
    config: Path
    remote: str

    @property
    def group(self) -> str:
        return f"{self.topic}-readers"

    def changed(self, old: str, new: str) -> str:
        """Write another file, with one thing changed."""
        text = self.config.read_text()
        assert old in text
        path = self.config.with_name("changed.properties")
        path.write_text(text.replace(old, new))
        return str(path)


def login(cluster: EmbeddedKafka, mechanism: str) -> dict[str, str]:
    """Java's client properties, with the authority as PEM and a password, or with PKCS12 stores and a certificate."""
    files = cluster.certificates
    if mechanism:
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.ca),
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULES[mechanism]} required username="alice" password="{PASSWORD}";',
        }
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(files.truststore_pkcs12),
        "ssl.truststore.password": files.password,
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(files.client_pkcs12),
        "ssl.keystore.password": files.password,
        "ssl.key.password": files.password,
    }


@pytest.fixture
def staged(
    old: EmbeddedKafka, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> Callable[..., Stage]:
    """`staged(mechanism)` makes a topic with records, a group in its middle, a file, and the ACLs."""

    def stage(mechanism: str) -> Stage:
        alias, topic = f"S{uuid.uuid4().hex[:5]}", unique_topic("guarded")
        security = login(old, mechanism)
        config = configure(
            tmp_path,
            {alias: old.address(security["security.protocol"]), "B": cluster_b},
            [f"{alias}->B"],
            topics=topic,
            groups=f"{topic}-readers",
            sync__group__offsets__enabled="true",
            sync__topic__acls__enabled="false",
            heartbeats__replication__enabled="false",
            **{f"{alias}.{key}": value for key, value in security.items()},
        )
        made = Stage(topic, config, f"{alias}.{topic}")
        create_topic(old, topic)
        produce(old, topic, RECORDS)
        commit_group(old, made.group, topic, 33)
        flow = load(config).flows[f"{alias}->B"]
        rights = grants(needs(flow, Names((topic,), (made.group,)), transactional_id(flow.name, "")))
        who = "User:alice" if mechanism else "User:CN=client"
        admin = administrator(old, alias)
        bindings = {it.binding(who) for it in rights if it.cluster == alias}
        if old.version == "2.0.1":  # its brokers list groups only to those who may describe the cluster
            bindings.add(AclBinding("CLUSTER", "LITERAL", "kafka-cluster", who, "*", "DESCRIBE", "ALLOW"))
        admin.create_acls(bindings).require()
        time.sleep(1)  # until ZooKeeper has told the broker
        return made

    return stage


def test_it_is_checked_copied_audited_and_its_groups_translated(
    old: EmbeddedKafka, cluster_b: Any, staged: Callable[..., Stage], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the rights that docs/security.md lists, and no other: TLS and a password by SCRAM."""
    stage = staged("SCRAM-SHA-256")
    config = ("--config", str(stage.config))
    code, document = run_cli(capsys, "check", *config)
    assert 0 == code, json.dumps(document, indent=1)
    code, document = run_cli(capsys, "run", "--once", *config)
    assert (0, len(RECORDS)) == (code, document["flows"][0]["records"]), json.dumps(document, indent=1)
    assert RECORDS == read(cluster_b, stage.remote)
    assert 33 == committed(cluster_b, stage.group, stage.remote)
    code, audit = run_cli(capsys, "audit", *config)
    assert (0, True, len(RECORDS)) == (code, audit["equal"], audit["compared"]), audit
    code, document = run_cli(capsys, "groups", *config)
    assert 0 == code, json.dumps(document, indent=1)


@pytest.mark.parametrize("mechanism", ["PLAIN", ""], ids=["PLAIN", "a certificate"])
def test_other_ways_to_log_in(
    mechanism: str, old: EmbeddedKafka, cluster_b: Any, staged: Callable[..., Stage]
) -> None:
    """A password in clear behind TLS; a client's certificate from PKCS12 stores."""
    stage = staged(mechanism)
    (flow,) = load(stage.config).enabled_flows
    assert len(RECORDS) == cycle(flow).records
    assert RECORDS == read(cluster_b, stage.remote)


def test_a_wrong_password_and_a_wrong_authority_get_one_line_each(
    staged: Callable[..., Stage], old: EmbeddedKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, without the password; nothing is copied."""
    stage = staged("SCRAM-SHA-256")
    other = make_certificates(tmp_path / "other")
    assert_refused(capsys, "does not accept the login", stage.changed(PASSWORD, "hunter2"))
    assert_refused(capsys, "certificate", stage.changed(str(old.certificates.ca), str(other.ca)))


def assert_refused(capsys: pytest.CaptureFixture[str], said: str, config: str) -> None:
    for words in (("check",), ("run", "--once"), ("audit",)):
        capsys.readouterr()
        code = main([*words, "--config", config])
        captured = capsys.readouterr()
        print(words, code, captured.out, captured.err, sep="\n")
        assert 3 == code
        assert said in captured.out + captured.err
        assert "hunter2" not in captured.out + captured.err

"""Warnings and notes by line: what MM2 would drop, and what is likely not meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config.flow.known_keys import LEFT
from twinlog.config.flow.load import Resolution, resolve
from twinlog.errors import ConfigError

HEAD = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


def resolved(tmp_path: Path, line: str, **environ: str) -> Resolution:
    path = tmp_path / "f"
    path.write_text(HEAD + line)
    return resolve(path, environ=environ)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("use.defaults.from=source", "silently drops it at the top level; write it per flow"),
        ("transforms.a.type=x", "write it per flow: A->B.transforms.a.type"),
        ("producer.override.linger.ms=1", "write it per flow"),
        ("exactly.once.support=required", "write it per flow"),
        ("offsets.storage.topic=x", "write it per flow"),
        ("consumer.isolation.level=read_uncommitted", "write it per flow"),
        ("fetch.min.bytes=1", "write it per cluster: A.fetch.min.bytes"),
        ("consumer.fetch.min.bytes=1", "write it per cluster: A.consumer.fetch.min.bytes"),
        ("source.consumer.fetch.min.bytes=1", "write it per cluster"),
        ("offset.flush.interval.ms=1", "write it as B.offset.flush.interval.ms, B being the target"),
        ("replication.policy.clas=x", "did you mean replication.policy.class?"),
        ("A->B.replication.policy.seperator=_", "did you mean replication.policy.separator?"),
        ("bootstrap.servers=x:1", "write it per cluster: A.bootstrap.servers"),
        ("enabled=false", "enable flows one by one"),
        ("topics.blacklist=x", "write topics.exclude"),
        ("A->B.groups.blacklist=x", "write groups.exclude"),
        ("config.properties.blacklist=x", "write config.properties.exclude"),
        ("sync.topic.configs.enabl=true", "did you mean sync.topic.configs.enabled?"),
        ("refresh.topics.enable=true", "did you mean refresh.topics.enabled?"),
        ("A->B.emit.heartbeats=false", "did you mean emit.heartbeats.enabled?"),
        ("A.consumer.fetch.min.byte=1", "did you mean fetch.min.bytes?"),
        ("A.producer.fetch.min.bytes=1", "is unknown and ignored"),
        ("A.fetch.min.bytes=1", "MM2 gives it to no client; write A.consumer.fetch.min.bytes"),
        ("A.topics=x", "is no property of a cluster; write it per flow: A->B.topics"),
        ("A->B.fetch.min.bytes=1", "need a role"),
        ("A->B.offset.storage.topic=x", "do not reach the worker"),
        ("A->B.source.cluster.fetch.min.bytes=1", "only addresses and security"),
        ("C.bootstrap.servers=x:1", "C is not in clusters"),
        ("A->C.enabled=true", "C is not in clusters"),
        ("C->D.topics=x", "C and D is not in clusters"),
        ("A->A.enabled=true", "leads from one cluster to another"),
        ("xxx=1", "is unknown and ignored, as by MM2; remove it"),
        ("groups=a,,b", "has an empty element"),
        ("B->A.enabled=1", "counts as false"),
        ("emit.heartbeats.enabled=true ", "ends in blanks"),
    ],
)
def test_likely_mistakes(tmp_path: Path, line: str, part: str) -> None:
    """Each is one warning with its line."""
    lines = [warning for warning in resolved(tmp_path, line).configuration.warnings if "f:5" in warning]
    assert [True] == [part in warning for warning in lines], lines


REFUSED = [
    ("A->B.topcis=orders", "f:5: A->B.topcis: is unknown (--lenient only warns); did you mean topics?"),
    ("A->B.xxx=1", "f:5: A->B.xxx: is unknown (--lenient only warns); remove it"),
    ("A->B.twinlog.lane=1", "did you mean twinlog.lanes?"),
    ("twinlog.lains=x", "did you mean twinlog.lanes?"),
    ("A.twinlog.xxx=1", "f:5: A.twinlog.xxx: is unknown"),
]


@pytest.mark.parametrize(("line", "part"), REFUSED)
def test_a_key_of_a_flow_that_nobody_knows_is_refused(tmp_path: Path, line: str, part: str) -> None:
    """Without it, the flow would copy more than was meant: `A->B.topcis = orders` copies `.*`."""
    with pytest.raises(ConfigError) as raised:
        resolved(tmp_path, line)
    assert part in str(raised.value)


@pytest.mark.parametrize(("line", "part"), REFUSED)
def test_it_is_a_warning_if_the_reader_is_lenient(tmp_path: Path, line: str, part: str) -> None:
    """`--lenient` is for files that others wrote."""
    del part
    (warning,) = (
        it for it in resolved(tmp_path, line, TWINLOG_LENIENT="1").configuration.warnings if "f:5" in it
    )
    assert "is unknown and ignored" in warning


def test_an_alias_with_the_separator_is_named(tmp_path: Path) -> None:
    """MM2 and its clients take a part of it for the alias."""
    (tmp_path / "f").write_text(HEAD.replace("A", "u.A"))
    (warning,) = resolve(tmp_path / "f", environ={}).configuration.warnings
    assert warning.startswith("f:1: clusters: the alias u.A contains the separator: MM2 takes a part of it")


def test_a_blank_that_ends_a_key_is_named(tmp_path: Path) -> None:
    """`A -> B.enabled = true` is a key `A` to Java's properties."""
    with pytest.raises(ConfigError) as raised:
        resolved(tmp_path, "A -> B.topics = x")
    assert "f:5: A: a blank ends a key, and this one was meant longer; write A->B.topics = x" in str(
        raised.value
    )


def test_a_policy_may_have_settings_of_its_own(tmp_path: Path) -> None:
    """Only what is nearly a key that we know is asked about."""
    found = resolved(tmp_path, "replication.policy.my.own.setting=x")
    assert ((), ()) == (found.configuration.warnings, found.notes)


@pytest.mark.parametrize(
    "line",
    [
        "tasks.max=10",
        "A->B.admin.timeout.ms=60000",
        "key.converter=x",
        "B.exactly.once.source.support=enabled",
        "B.offset.flush.interval.ms=5000",
        "dedicated.mode.enable.internal.rest=true",
        "listeners=http://:8083",
        "status.storage.replication.factor=1",
        "A->B.exactly.once.support=required",
        "A.consumer.max.poll.records=5",
        "B.producer.acks=1",
        "A.consumer.fetch.min.bytes=1",
        "B.producer.compression.type=lz4",
        "A->B.producer.override.linger.ms=1",
        "ssl.enabled.protocols=TLSv1.3",
        "metric.reporters=x",
        "admin.timeout.ms=5",
        "refresh.groups.enabled=false",
        "refresh.topics.interval.seconds=5",
        "A.consumer.receive.buffer.bytes=1",
        "A.consumer.metadata.max.age.ms=1",
        "A->B.source.consumer.reconnect.backoff.ms=1",
        "A->B.producer.override.retry.backoff.ms=1",
        "A.admin.client.id=x",
        "A.admin.send.buffer.bytes=1",
        "A.sasl.oauthbearer.clock.skew.seconds=3",
        "sasl.oauthbearer.sub.claim.name=x",
        "A.sasl.login.retry.backoff.ms=3",
        "A.admin.retry.backoff.ms=1",
        "A->B.source.cluster.ssl.protocol=TLSv1.3",
    ],
)
def test_lines_without_effect_are_notes(tmp_path: Path, line: str) -> None:
    """They are no mistakes: strict does not fail for them, explain says them."""
    found = resolved(tmp_path, line)
    assert ((), [True]) == (found.configuration.warnings, ["f:5" in note for note in found.notes])


@pytest.mark.parametrize(
    "line",
    [
        "A.consumer.fetch.max.bytes=1000000",
        "B.producer.request.timeout.ms=9000",
        "A->B.source.consumer.client.id=mine",
        "A.admin.request.timeout.ms=9000",
        "A->B.consumer.isolation.level=read_uncommitted",
        "A.security.protocol=PLAINTEXT",
        "A.producer.security.protocol=PLAINTEXT",
        "B.offset.storage.replication.factor=1",
        "offset.storage.replication.factor=1",
        "twinlog.lanes=1",
        "A->B.twinlog.lanes=1",
        "A->B.use.defaults.from=source",
        "replication.policy.anything=1",
        "sasl.mechanism=PLAIN",
    ],
)
def test_good_lines_are_silent(tmp_path: Path, line: str) -> None:
    """Neither warning nor note."""
    found = resolved(tmp_path, line)
    assert ((), ()) == (found.configuration.warnings, found.notes)


def test_two_flows_with_one_offset_syncs_topic(tmp_path: Path) -> None:
    """A->B at the source and B->A at the target write the same topic."""
    lines = "B->A.enabled=true\nB->A.offset-syncs.topic.location=target\nB->A.sync.topic.acls.enabled=false\n"
    warnings = resolved(tmp_path, lines).configuration.warnings
    assert [True] == ["write their offset syncs to the same topic on A" in line for line in warnings]


ACLS, QUOTAS = "both sync ACLs", "both sync quotas"
IDENTITY = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["B->A.enabled=false"], []),
        (["B->A.enabled=true"], [ACLS]),
        (["B->A.enabled=true", "B->A.sync.topic.acls.enabled=false"], []),
        (["B->A.enabled=true", "twinlog.metadata.profile=mm2"], []),
        (["B->A.enabled=true", "B->A.twinlog.metadata.profile=mm2"], []),
        (["B->A.enabled=true", "twinlog.metadata.profile=mm2", IDENTITY], [ACLS]),
        (["B->A.enabled=true", "twinlog.sync.quotas.enabled=true"], [ACLS, QUOTAS]),
        (["B->A.enabled=true", "A->B.twinlog.sync.quotas.enabled=true"], [ACLS]),
    ],
)
def test_rights_and_quotas_that_go_both_ways(tmp_path: Path, lines: list[str], expected: list[str]) -> None:
    """What is revoked on one side would come back from the other: said once for the two flows."""
    warnings = resolved(tmp_path, "\n".join(lines) + "\n").configuration.warnings
    found = [kind for line in warnings for kind in (ACLS, QUOTAS) if kind in line]
    assert expected == found


def test_aliases_with_dots_and_aliases_named_like_sides(tmp_path: Path) -> None:
    """The longest alias owns a key; `source` and `target` are ordinary aliases."""
    path = tmp_path / "f"
    path.write_text(
        "clusters=source,target,eu.west\nsource.bootstrap.servers=a:1\ntarget.bootstrap.servers=b:1\n"
        "eu.west.bootstrap.servers=c:1\nsource->target.enabled=true\nsource.consumer.fetch.max.bytes=1\n"
        "source->eu.west.topics=x\n"
    )
    found = resolve(path, environ={})
    assert () == found.notes
    (warning,) = found.configuration.warnings
    assert "the alias eu.west contains the separator" in warning
    assert ("x",) == found.configuration.flows["source->eu.west"].topics.include


def login(mechanism: str, module: str, protocol: str = "SASL_PLAINTEXT", options: str = "") -> str:
    """Three lines of a cluster that is logged in to; the file's lines 5, 6 and 7."""
    jaas = f"org.apache.kafka.common.security.{module} required {options};"
    return f"A.security.protocol = {protocol}\nA.sasl.mechanism = {mechanism}\nA.sasl.jaas.config = {jaas}\n"


PASSWORD = 'username="u" password="p"'
CLIENT = 'clientId="c" clientSecret="s"'
OAUTH = "oauthbearer.OAuthBearerLoginModule"
HTTP = "A.sasl.oauthbearer.token.endpoint.url = http://idp:8080/token\n"
HTTPS = HTTP.replace("http:", "https:")


@pytest.mark.parametrize(
    ("lines", "place", "part"),
    [
        (login("PLAIN", "plain.PlainLoginModule", options=PASSWORD), "f:5: A.security.protocol", "password"),
        (login("OAUTHBEARER", OAUTH, options=CLIENT) + HTTPS, "f:5: A.security.protocol", "the token"),
        (
            login("OAUTHBEARER", OAUTH, options='unsecuredLoginStringClaim_sub="u"'),
            "f:5: A.security.protocol",
            "the token",
        ),
        (
            login("OAUTHBEARER", OAUTH, "SASL_SSL", CLIENT) + HTTP,
            "f:8: A.sasl.oauthbearer.token.endpoint.url",
            "client secret and token cross the network in clear; use an https:// address",
        ),
        (
            login("OAUTHBEARER", OAUTH, "SASL_SSL", CLIENT) + HTTP.replace("http:", "HTTP:"),
            "f:8: A.sasl.oauthbearer.token.endpoint.url",
            "in clear",
        ),
        (
            "A.security.protocol = SSL\nA.ssl.endpoint.identification.algorithm =\n",
            "f:6: A.ssl.endpoint.identification.algorithm",
            "passes for a broker",
        ),
        (
            "A.security.protocol = SSL\nA.producer.ssl.endpoint.identification.algorithm =\n",
            "f:6: A.producer.ssl.endpoint.identification.algorithm",
            "passes for a broker",
        ),
        ("twinlog.alert.url = http://hooks/T0/secret\n", "f:5: twinlog.alert.url", "in clear"),
    ],
)
def test_what_works_and_protects_nothing_is_told(tmp_path: Path, lines: str, place: str, part: str) -> None:
    """By key and line, once, without the secret; --strict refuses the file."""
    (warning,) = resolved(tmp_path, lines).configuration.warnings
    assert (True, True) == (warning.startswith(place), part in warning), warning
    assert 'secret"' not in warning
    with pytest.raises(ConfigError, match=r"in clear|passes for a broker"):
        resolve(tmp_path / "f", environ={"TWINLOG_STRICT": "1"})


@pytest.mark.parametrize(
    "lines",
    [
        login("PLAIN", "plain.PlainLoginModule", "SASL_SSL", PASSWORD),
        login("SCRAM-SHA-512", "scram.ScramLoginModule", options=PASSWORD),
        login("OAUTHBEARER", OAUTH, "SASL_SSL", CLIENT) + HTTPS,
        "A.security.protocol = SSL\nA.ssl.endpoint.identification.algorithm = https\n",
        "A.ssl.endpoint.identification.algorithm =\n",
        "twinlog.alert.url = https://hooks/T0/secret\n",
    ],
)
def test_what_is_protected_is_not_warned_of(tmp_path: Path, lines: str) -> None:
    """SCRAM never sends the password; what TLS does not use is not asked."""
    assert () == resolved(tmp_path, lines).configuration.warnings


@pytest.mark.parametrize("owner", ["", "A->B.", "A."])
def test_a_setting_that_left_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str) -> None:
    """A file with a setting that left is refused, wherever it stands, with a line that says what to do instead."""
    monkeypatch.setitem(LEFT, "twinlog.once", "remove the line")
    with pytest.raises(ConfigError) as failure:
        resolved(tmp_path, f"{owner}twinlog.once = 1")
    assert f"f:5: {owner}twinlog.once: has left twinlog; remove the line" == str(failure.value)

"""Explaining a configuration: each value with its line or rule, secrets masked, and the fate of topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twinlog.cli.inspection.plan import plan
from twinlog.cli.render import OUTPUT, Output
from twinlog.config.explain import ExplainedTopic, ExplainedValue, Explanation, explain, explain_topics
from twinlog.config.flow.load import load, resolve
from twinlog.config.flow.reader import shown
from twinlog.config.flow.settings import Configuration
from twinlog.errors import ConfigError, UsageError
from twinlog.jsonable import to_json

SECRETS = ("hunter2", "s3cr3t", "t0ken", "fr0m-env")
TEXT = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
topics = orders.*, ${env:MORE}
A->B.topics.exclude = orders-tmp
B.security.protocol = SASL_PLAINTEXT
B.sasl.mechanism = SCRAM-SHA-512
B.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hunter2";
A.ssl.key.password = s3cr3t
A.consumer.fetch.max.bytes = 1000000
B.some.vault.token = t0ken
B.consumer.client.id = ${env:MORE}
"""
ENVIRON = {"MORE": "fr0m-env"}


def told(path: Path, output: Output, **words: Any) -> None:
    before = OUTPUT.set(output)
    try:
        plan(config=path, explain=True, **words)
    finally:
        OUTPUT.reset(before)


def explained(tmp_path: Path, *topics: str) -> Explanation:
    path = tmp_path / "mm2.properties"
    path.write_text(TEXT)
    return explain(resolve(path, environ=ENVIRON), ["A->B"], topics)


def test_each_value_says_where_it_is_from(tmp_path: Path) -> None:
    """A line with its key and rule, a default, and a value derived from another key."""
    values = {value.key: value for value in explained(tmp_path).flows[0].values}
    expected = [
        ExplainedValue("topics.exclude", "orders-tmp", "mm2.properties:6", "A->B.topics.exclude", "flow"),
        ExplainedValue("offset.lag.max", "100", "", "", "default"),
        ExplainedValue(
            "twinlog.fetch.bytes",
            "1000000",
            "mm2.properties:11",
            "A.consumer.fetch.max.bytes",
            "as fetch.max.bytes: source cluster: its own key",
        ),
        ExplainedValue(
            "B producer security.protocol",
            "SASL_PLAINTEXT",
            "mm2.properties:7",
            "B.security.protocol",
            "target cluster: its own key, for every client",
            "copy and others",
        ),
        ExplainedValue("topics", "[hidden]", "mm2.properties:5", "topics", "top level"),
    ]
    assert expected == [values[value.key] for value in expected]


def test_topics_have_a_remote_name_or_a_reason(tmp_path: Path) -> None:
    """Each topic is judged by filter, cycle rule and policy."""
    found = explained(
        tmp_path, "orders", "orders-tmp", "other", "B.orders", "heartbeats", "__consumer_offsets"
    )
    assert [
        ("orders", "A.orders"),
        ("orders-tmp", None),
        ("other", None),
        ("B.orders", None),
        ("heartbeats", "A.heartbeats"),
        ("__consumer_offsets", None),
    ] == [(topic.topic, topic.remote_topic) for topic in found.flows[0].topics]
    assert all((topic.remote_topic is None) != (topic.left_out is None) for topic in found.flows[0].topics)
    assert "a pattern of topics.exclude matches it" == found.flows[0].topics[1].left_out


def test_what_no_filter_selects_is_copied_for_a_reason_that_is_said(tmp_path: Path) -> None:
    """By MM2's rule a user's topic called `device.heartbeats` is a heartbeats topic."""
    found = explained(tmp_path, "orders", "heartbeats", "device.heartbeats").flows[0].topics
    why = "by its name a heartbeats topic (heartbeats.replication.enabled)"
    assert ["", why, why] == [topic.because for topic in found]
    assert "A.device.heartbeats" == found[2].remote_topic


def test_a_flow_that_only_beats_copies_no_topic(tmp_path: Path) -> None:
    """No topic gets a remote name from a flow that is not enabled, also if it was asked for by name."""
    path = tmp_path / "f"
    path.write_text(TEXT)
    explanation = explain(resolve(path, environ=ENVIRON), (), ["orders"])
    assert {"A->B": 1, "B->A": 0} == {flow.flow: len(flow.topics) for flow in explanation.flows}


def test_topics_of_a_flow_by_itself(tmp_path: Path) -> None:
    """The same judgement for callers that hold a flow and names from its source."""
    path = tmp_path / "f"
    path.write_text(TEXT)
    flow = load(path, environ=ENVIRON).flows["A->B"]
    assert (ExplainedTopic("orders", "A.orders", None),) == explain_topics(flow, ["orders"])


def test_progress_under_its_own_name_is_explained_as_left_out(tmp_path: Path) -> None:
    """On both sides of a pair of flows, each of which would copy what the other one writes."""
    path = tmp_path / "f"
    path.write_text(
        TEXT.replace("topics = ", "topics = .*, ") + "B->A.enabled=true\noffset.storage.topic=offsets\n"
    )
    for flow in load(path, environ=ENVIRON).flows.values():
        (fate,) = explain_topics(flow, ["offsets"])
        assert "holds the progress of a flow (offset.storage.topic)" == fate.left_out


def test_no_secret_is_ever_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in explain's JSON and tables, nor in a repr, a warning or an error."""
    path = tmp_path / "mm2.properties"
    path.write_text(TEXT)
    configuration: Configuration = load(path, environ=ENVIRON)
    path.write_text(TEXT.replace("${env:MORE}", "x"))
    told(path, output=Output.TABLE)
    told(path, output=Output.JSON)
    path.write_text(TEXT + "twinlog.lanes = ${env:MORE}\nreplication.factor=x\nA.security.protocol=SSL\n")
    with pytest.raises(ConfigError) as caught:
        load(path, environ=ENVIRON)
    credentials = [configuration.flows["A->B"].target.connection, configuration.flows["A->B"].target.producer]
    everything = [
        json.dumps(to_json(explained(tmp_path))),
        repr(credentials),
        repr(configuration.clusters),
        *configuration.warnings,
        str(caught.value),
        repr(caught.value.data),
        "".join(capsys.readouterr()),
    ]
    assert [] == [(secret, text) for secret in SECRETS for text in everything if secret in text]


def test_an_unknown_flow_is_a_usage_error(tmp_path: Path) -> None:
    """The flows of the file are named."""
    path = tmp_path / "f"
    path.write_text(TEXT)
    with pytest.raises(UsageError) as caught:
        explain(resolve(path, environ=ENVIRON), ["A->C"])
    assert "its flows are: A->B, B->A" in str(caught.value)


def test_the_table_shows_lines_and_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People see key, value and line; JSON is one document."""
    path = tmp_path / "mm2.properties"
    path.write_text(TEXT.replace("${env:MORE}", "x"))
    told(path, flow=["A->B"], topics=["orders"], output=Output.TABLE)
    table = capsys.readouterr().out
    assert [True] * 3 == [part in table for part in ("mm2.properties:6", "A.orders", "B.some.vault.token")]
    told(path, flow=["A->B"], output=Output.JSON)
    document = json.loads(capsys.readouterr().out)
    assert ["A->B"] == [flow["flow"] for flow in document["flows"]]


def test_a_check_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    """`twinlog.gate.blocking` with a typing error would block nothing."""
    path = tmp_path / "mm2.properties"
    path.write_text(TEXT.replace("${env:MORE}", "x") + "twinlog.gate.blocking = survives-a-brocker\n")
    with pytest.raises(ConfigError) as caught:
        told(path, flow=["A->B"], topics=["orders"], output=Output.TABLE)
    said = "mm2.properties:14: twinlog.gate.blocking: 'survives-a-brocker' is no check of the gate"
    assert said == caught.value.message


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("twinlog.spark.master", "sc://s:1/;token=t0ken;use_ssl=true", "sc://s:1/;token=[hidden];use_ssl=true"),
        ("twinlog.spark.master", "sc://s:1/;authorization=Bearer%20t", "sc://s:1/;authorization=[hidden]"),
        ("twinlog.alert.url.of", "https://u:s3cr3t@host/x", "https://[hidden]@host/x"),
        ("twinlog.failover.hook.command", "move --token t0ken", "[hidden]"),
        ("topics", "orders;token", "orders;token"),
    ],
)  # fmt: skip
def test_what_an_address_holds_of_a_secret_is_hidden(key: str, text: str, expected: str) -> None:
    """The login of a URL, the token of a Connect server."""
    assert expected == shown(key, text)


ELSEWHERE = """clusters = A, B
A.bootstrap.servers = ${dir:/nowhere/addresses:a}
B.bootstrap.servers = b:9092
A->B.enabled = true
A->B.topics = orders
A->B.twinlog.lanes = ${env:LANES}
A.security.protocol = SSL
A.ssl.truststore.location = /nowhere/trust.p12
A.ssl.truststore.password = ${file:/nowhere/secrets:trust}
A.ssl.keystore.location = /nowhere/key.pem
A.ssl.keystore.type = PEM
B.security.protocol = SASL_SSL
B.ssl.truststore.location = /nowhere/trust.pem
B.sasl.mechanism = PLAIN
B.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \
  username="u" password="${env:PW}hunter2";
twinlog.alert.url = ${airflow:alarms:url}
"""


def test_what_a_value_names_need_not_be_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is a finding with its line, shown as unresolved, also under --strict; a command that needs them stops."""
    path = tmp_path / "mm2.properties"
    path.write_text(ELSEWHERE)
    monkeypatch.setenv("TWINLOG_STRICT", "1")
    told(path, topics=["orders"], output=Output.JSON)
    printed = capsys.readouterr().out
    document = json.loads(printed)
    lines = [2, 6, 8, 9, 10, 13, 15, 16]
    assert lines == [int(line.split(":")[1]) for line in document["unresolved"]]
    values = {it["key"]: it["value"] for it in document["flows"][0]["values"]}
    named = (
        "A consumer bootstrap.servers",
        "twinlog.lanes",
        "B producer sasl.jaas.config",
        "twinlog.alert.url",
    )
    assert ["[unresolved]"] * 4 == [values[key] for key in named]
    assert [{"topic": "orders", "remote_topic": "A.orders", "left_out": None, "because": ""}] == document[
        "flows"
    ][0]["topics"]
    assert "hunter2" not in printed
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert "mm2.properties:9: A.ssl.truststore.password: ${file:/nowhere/secrets:trust}" in str(caught.value)


def test_what_is_here_is_judged_beside_what_is_not(tmp_path: Path) -> None:
    """A mistake in the file ends an explanation, also next to a store that is on another machine."""
    path = tmp_path / "mm2.properties"
    path.write_text(
        ELSEWHERE.replace("mechanism = PLAIN", "mechanism = OTHER").replace("${env:PW}", "")
        + "A->B.twinlog.transaction.bytes = x\n"
    )
    with pytest.raises(ConfigError) as caught:
        told(path, topics=["orders"], output=Output.JSON)
    found = [line.split(": ")[0] for line in caught.value.data["findings"]]
    assert ["mm2.properties:14", "mm2.properties:17"] == found


@pytest.mark.parametrize("key", ["A->B.topics", "A->B.enabled", "A->B.replication.policy.separator"])
def test_topics_are_not_judged_by_what_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    """No topic is said to be copied, or left out, while the value that decides about it is elsewhere."""
    path = tmp_path / "mm2.properties"
    text = "clusters = A, B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled = true\n"
    path.write_text(f"{text}{key} = ${{env:ELSEWHERE}}\n".replace("enabled = true\nA->B.enabled", "enabled"))
    told(path, flow=["A->B"], topics=["orders"], output=Output.JSON)
    (flow,) = json.loads(capsys.readouterr().out)["flows"]
    assert ([], False) == (flow["topics"], flow["judged"])
    told(path, flow=["A->B"], output=Output.TABLE)
    captured = capsys.readouterr()
    assert "A->B: topics are not judged: what decides about them is not on this machine" in captured.err
    assert "copies nothing" not in captured.out

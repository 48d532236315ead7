"""`twinlog run`: whole cycles, and what becomes of their failures."""

import json
import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.cli.main import main
from twinlog.cli.replication.cycle import FlowRun, follow_failures
from twinlog.cli.replication.run import new_run_id
from twinlog.cluster.api import Clusters
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.result import CopyResult, PartitionCopy, Totals, result_of
from twinlog.cycle import GroupsRun
from twinlog.errors import ClusterRefused, ClusterUnreachable, TransientError
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.judge.check import Severity
from twinlog.judge.great_expectations import CheckResult
from twinlog.kafka_types import PartitionIssue, TopicPartition
from twinlog.monitoring.cycle_report import (
    FlowReport,
    PartitionReport,
    TopicReport,
)
from twinlog.state.ledger import ledger_in
from twinlog.steps import discover


def _run(world, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any], str]:
    code = main(["run", "--once", "--config", str(world.file), "--output", "json", *options])
    captured = capsys.readouterr()
    return code, json.loads(captured.out)["flows"][0], captured.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "run needs --once, --for or --follow"),
        (("--once", "--for", "1m"), "--once is one cycle and --for follows: not both"),
        (("--follow", "--once"), "--follow has no end, and goes with neither --once nor --for"),
        (("--follow", "--until", "2026-01-01"), "it does not go with --for or --follow"),
        (("--for", "0s"), "--for: 0s is no time to follow"),
        (("--for", ""), "--for: '' is no duration"),
        (("--for", "soon"), "--for: 'soon' is no duration"),
        (("--once", "--until", "soon"), "--until: 'soon' is no time"),
        (("--for", "1m", "--until", "2026-01-01"), "it does not go with --for"),
    ],
)
def test_wrong_usage_is_said_before_anything_is_read(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, even when the file does not exist."""
    assert main(["run", "--config", "nowhere", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run --once", "plan", "status", "groups", "audit"])
def test_a_comment_behind_a_value_is_warned_about(
    world, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its line, by whatever reads the file; under --strict nothing is done."""
    world.file.write_text(
        world.file.read_text().replace("topics = .*", "topics = orders, payments   # important")
    )
    words = [*command.split(), "--config", str(world.file)]
    main(words)
    assert (
        "warning: mm2.properties:5: A->B.topics: holds what reads like a comment" in capsys.readouterr().err
    )
    before = dict(world.target.topics)
    assert 2 == main([*words, "--strict"])
    assert "error: mm2.properties:5: A->B.topics: holds what reads like" in capsys.readouterr().err
    assert before == dict(world.target.topics)


def test_the_shape_stays(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields may be added, these stay."""
    world.source.add_topic("orders")
    code, run, err = _run(world, capsys)
    assert set(run) >= {"flow", "run_id", "state", "records", "bytes", "topics", "gaps", "seconds"}
    (topic,) = run["topics"]
    assert set(topic) >= {"topic", "remote_topic", "partitions"}
    (partition,) = topic["partitions"]
    assert set(partition) >= {"partition", "copied_records", "last_upstream_offset", "lag_records"}
    assert (code, run["state"], topic["remote_topic"], "Traceback" in err) == (
        0,
        "nothing",
        "A.orders",
        False,
    )


def test_without_anything_to_copy_no_spark_session_is_opened(
    world, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle cycle costs no JVM, and still creates topics, beats and reports."""
    monkeypatch.setattr("twinlog.cli.replication.follow.WarmSpark.runner", lambda *_, **__: 1 // 0)
    world.source.add_topic("orders", partitions=3)
    code, run, _ = _run(world, capsys)
    assert (code, run["state"], run["records"]) == (0, "nothing", 0)
    assert len(world.target.topics["A.orders"].logs) == 3
    assert world.target.topics["heartbeats"].logs[0].end == 1


def test_a_topic_that_cannot_be_copied_fails_by_name(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1, the reason in the document and on stderr; the other topic has its copy."""
    world.source.add_topic("orders", partitions=3)
    world.source.add_topic("payments")
    world.target.add_topic("A.orders", partitions=1).operations = frozenset({"DESCRIBE"})
    code, run, err = _run(world, capsys)
    assert (code, run["state"]) == (1, "failed")
    assert {(it["topic"], it["code"]) for it in run["failures"]} == {("orders", "fewer-partitions")}
    assert "A.payments" in world.target.topics
    assert re.search(r"^A->B: orders was not copied: .*; grant ALTER on topic A.orders", err, re.MULTILINE)


def test_what_failed_is_in_the_ledger(world, capsys: pytest.CaptureFixture[str]) -> None:
    """For the gate: a refused topic, and partitions that have no place, leave nothing to copy."""
    at = TopicPartition("orders", 0)
    world.source.add_topic("orders")
    world.source.append(at, key=b"k", value=b"v", timestamp=1_000)
    world.target.refuse("create_topics", "A.orders", ClusterRefused("no"))
    code, run, _ = _run(world, capsys)
    kept = ledger_in(world.target, "mm2-ledger.A.internal").last_report
    assert (1, "failed", "failed") == (code, run["state"], kept.summary["state"])


def test_a_cluster_that_goes_away_is_exit_3_and_no_topic_is_lost(
    world, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document still has its shape, with the error in it."""
    world.target.describe_topics = _unreachable
    code, run, err = _run(world, capsys)
    assert (code, run["state"], run["topics"], run["error"]["code"]) == (3, "failed", [], "unreachable")
    assert "A->B: error: cluster B is away" in err


def _unreachable(*_: object) -> None:
    raise ClusterUnreachable("cluster B is away")


def test_a_topic_of_another_flow_is_wrong_usage(world, capsys: pytest.CaptureFixture[str]) -> None:
    """--topics with a name that the flow does not replicate."""
    code, run, _ = _run(world, capsys, "--topics", "nope")
    assert (code, run["error"]["code"]) == (2, "usage")


def test_people_see_a_line_per_partition(world, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has what was copied, and how much is left."""
    world.source.add_topic("orders", partitions=2)
    assert main(["run", "--once", "--config", str(world.file)]) == 0
    out = capsys.readouterr().out
    assert "A->B: nothing, 0 records and 0 bytes" in out
    assert len(re.findall(r"^ *orders +A\.orders", out, re.MULTILINE)) == 2


def test_people_see_a_line_per_topic_where_there_are_many_partitions(
    world, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten thousand rows are no answer."""
    world.source.add_topic("orders", 150)
    world.source.add_topic("bills", 51)
    assert main(["run", "--once", "--config", str(world.file)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "A." in line]
    assert rows == [["bills", "A.bills", "51", "0", "0", "0"], ["orders", "A.orders", "150", "0", "0", "0"]]


def test_run_ids_sort_by_time_and_differ() -> None:
    """Two runs of one second are two runs."""
    first, second = new_run_id(), new_run_id()
    assert first != second
    assert re.fullmatch(r"cli-\d{8}T\d{6}Z-[0-9a-f]{6}", first)


REPORT = FlowReport(
    flow="A->B",
    run_id="r",
    state="done",
    records=5,
    bytes=100,
    topics=(TopicReport("t", "A.t", (PartitionReport(0, 5, 4, 2),)),),
    gaps=(),
    stopped=(),
    problems=(),
    lag_records=2,
    rpo_seconds=1.0,
    seconds=2.0,
    at_ms=0,
)


@pytest.mark.parametrize(("severity", "succeeded"), [(Severity.CRITICAL, False), (Severity.WARNING, True)])
def test_only_a_critical_check_says_no(severity: Severity, succeeded: bool) -> None:
    """A warning is shown, and the run is a success."""
    check = CheckResult("lag", severity, passed=False, observed="7", expected="0", message="behind")
    run = FlowRun("A->B", "r", REPORT, failed_checks=(check,))
    assert (run.state, run.succeeded) == ("done", succeeded)


@pytest.mark.parametrize(
    ("severity", "groups", "expected"),
    [
        (Severity.WARNING, GroupsRun(refused="no right"), 3),
        (Severity.CRITICAL, None, 1),
        (Severity.WARNING, GroupsRun(error="a map that cannot be read"), 1),
    ],
)
def test_a_copy_that_broke_off_is_3_where_nothing_else_needs_a_person(
    severity: Severity, groups: GroupsRun | None, expected: int
) -> None:
    """Who tries again at 3 would never look at a check that says no."""
    check = CheckResult("lag", severity, passed=False, observed="7", expected="0", message="behind")
    died = (PartitionIssue("tasks-died", "", "no Python"),)
    run = FlowRun("A->B", "r", REPORT, died, (check,), groups=groups, broke_off=True)
    assert expected == run.exit_code


def test_a_group_whose_positions_are_not_told_is_named(world, capsys: pytest.CaptureFixture[str]) -> None:
    """The copy is done without it, and nobody may think that the group was looked after."""
    for group in ("billing", "reports"):
        world.source.commit(group, TopicPartition("orders", 0), 0)
        world.source.refuse("committed_offsets", group, ClusterRefused(f"no READ on {group}"))
    code, run, err = _run(world, capsys)
    line = "the positions of group billing are not told: no READ on billing (and 1 group more)"
    assert (0, line, True) == (code, run["groups"]["refused"], f"A->B: {line}" in err)


def test_a_gap_is_reported_though_nothing_is_to_copy(world, capsys: pytest.CaptureFixture[str]) -> None:
    """A partition whose records expired before they were copied stops, and the run says no."""
    world.source.add_topic("orders")
    _run(world, capsys)
    for number in range(5):
        world.source.append(TopicPartition("orders", 0), key=None, value=b"v", timestamp=number)
    world.source.delete_records(TopicPartition("orders", 0), 5)
    key = source_offset_key("MirrorSourceConnector", "A", 0, "orders")
    world.target.append(TopicPartition("mm2-offsets.A.internal", 0), key=key, value=offset_value(1))
    code, run, err = _run(world, capsys)
    assert (code, run["state"]) == (1, "failed")
    assert [(it["topic"], it["partition"], it["code"]) for it in run["failures"]] == [("orders", 0, "gap")]
    assert "A->B: orders-0 was not copied: " in err
    for way in (
        "twinlog.on.gap=record-and-continue",
        "twinlog topics rebuild --topic orders",
        "twinlog accept no-gaps",
    ):
        assert way in err and way in run["failures"][0]["hint"]


def test_a_partition_that_the_source_cannot_show_is_no_success(
    world, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader is dead: what it holds beyond the copy nobody knows, so it is not said that nothing is missing."""
    world.source.add_topic("orders", partitions=2)
    _run(world, capsys)
    world.source.append(TopicPartition("orders", 1), key=b"k", value=b"v", timestamp=1_000)
    _kill_leader(world.source, TopicPartition("orders", 1), monkeypatch)
    code, run, err = _run(world, capsys)
    assert (1, "failed") == (code, run["state"])
    assert [("orders", 1, "partition-unavailable")] == [
        (it["topic"], it["partition"], it["code"]) for it in run["failures"]
    ]
    assert "A->B: orders-1 was not copied: " in err
    assert main(["run", "--once", "--config", str(world.file)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "not known how many records to go, 1 partition not seen" in told


def _kill_leader(cluster: FakeCluster, dead: TopicPartition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a cluster refuse the offsets of one partition."""
    ask = cluster.offsets

    def offsets(partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, PartitionOffsets]:
        answers = ask(partitions)
        found = {it: seen for it, seen in answers.found.items() if it != dead}
        return Answers(found, {**answers.refused, dead: ClusterUnreachable("no leader")})

    monkeypatch.setattr(cluster, "offsets", offsets)


@pytest.fixture
def broken_off(world, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record to copy, and tasks that die before any partition can report."""
    world.source.add_topic("orders")
    world.source.append(TopicPartition("orders", 0), key=b"k", value=b"v", timestamp=1_000)
    died = TransientError("no Python", hint="look at the memory", code="tasks-died")

    def copied(flow: FlowSettings, clusters: Clusters, *_: object, run_id: str, **__: object) -> CopyResult:
        return result_of(flow, run_id, discover.run(flow, clusters), Totals(), (), died, 2, 1, 0.1)

    monkeypatch.setattr("twinlog.cli.replication.follow.WarmSpark.runner", lambda *_, **__: None)
    monkeypatch.setattr("twinlog.steps.copy.run", copied)


@pytest.mark.usefixtures("broken_off")
def test_a_copy_that_broke_off_says_why(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks that died report no partition: the reason is the flow's, with its code, and exit 3 as elsewhere."""
    code, run, err = _run(world, capsys)
    assert (3, "failed", None) == (code, run["state"], run["error"])
    assert [("", None, "tasks-died")] == [
        (it["topic"], it["partition"], it["code"]) for it in run["failures"]
    ]
    assert "A->B: not everything was copied: no Python; look at the memory\n" in err
    assert ["orders"] == [it["topic"] for it in run["topics"]]


@pytest.mark.usefixtures("broken_off")
def test_a_refused_topic_beside_a_copy_that_broke_off_needs_a_person(
    world, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1: trying again gives no right."""
    world.source.add_topic("payments")
    world.target.refuse("create_topics", "A.payments", ClusterRefused("no", code="unauthorised"))
    code, run, _ = _run(world, capsys)
    assert (1, [("A.payments", "unauthorised"), ("", "tasks-died")]) == (
        code,
        [(it["topic"], it["code"]) for it in run["failures"]],
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("", [("", "tasks-died", "no Python; look")]),
        ("no Python", [("t", "tasks-died", "no Python; look")]),
        ("no", [("t", "stalled", "no"), ("", "tasks-died", "no Python; look")]),
    ],
)
def test_what_ended_a_copy_is_told_once(error: str, expected: list[tuple[str, str, str]]) -> None:
    """By the partitions that it kept from their end, with its code; by the flow where none tells of it."""
    part = PartitionCopy("t", "A.t", 0, 1, 9, 4, 5, error_code="stalled" if error else "", error=error)
    result = CopyResult(
        "A->B", "r", "failed", 1, 9, 0.1, (part,), error="no Python; look", error_code="tasks-died"
    )
    assert expected == [(it.topic, it.code, it.message) for it in follow_failures(result)]


def test_a_copy_with_a_transaction_open_is_looked_at_though_nothing_is_to_copy(
    world, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end may be lost: readers of the copy would wait for ever while the source is idle."""
    world.source.add_topic("orders")
    _run(world, capsys)
    world.target.append(TopicPartition("A.orders", 0), key=None, value=b"open", timestamp=1)
    world.target.topics["A.orders"].logs[0].undecided = 1
    looked: list[str] = []

    def copied(flow: Any, *_: object, run_id: str, **__: object) -> CopyResult:
        looked.append(flow.name)
        return CopyResult(flow.name, run_id, "nothing", 0, 0, 0.0, ())

    monkeypatch.setattr("twinlog.cli.replication.follow.WarmSpark.runner", lambda *_, **__: None)
    monkeypatch.setattr("twinlog.steps.copy.run", copied)
    _run(world, capsys)
    assert ["A->B"] == looked


def test_more_flows_than_slots_are_refused(
    world, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lane that follows keeps its slot, so the others would never begin."""
    world.file.write_text(f"{world.file.read_text()}\nB->A.enabled = true\nB->A.topics = pay\n")
    monkeypatch.setattr(
        "twinlog.cli.replication.follow.WarmSpark.runner", lambda *_, **__: SimpleNamespace(slots=1)
    )
    assert 2 == main(["run", "--for", "1m", "--config", str(world.file), "--master", "local[1]"])
    said = capsys.readouterr().err
    assert "2 flows cannot be followed with 1 Spark slots: each needs one at least" in said
    assert "local[4]" in said

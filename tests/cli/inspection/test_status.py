"""`twinlog status`: lag, gaps and the state of each flow."""

import json
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.config.flow.load import load
from twinlog.errors import ClusterUnreachable
from twinlog.formats.ledger.records import Incarnation
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import write_ledger


def _status(world, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any], str]:
    code = main(["status", "--config", str(world.file), "--output", "json", *options])
    captured = capsys.readouterr()
    return code, json.loads(captured.out)["flows"][0], captured.err


def _lost(*_: object) -> None:
    raise ClusterUnreachable("cluster A is away", cluster="A")


def test_the_shape_stays(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields may be added, these stay."""
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()
    code, status, _ = _status(world, capsys)
    keys = {"flow", "state", "rpo_seconds", "lag_records", "topics", "gaps", "incarnations"}
    assert (code, keys - set(status)) == (0, set())
    assert [set(it) >= {"topic", "topic_id", "since"} for it in status["incarnations"]] == [True]


def test_lag_is_counted_in_records_and_seconds(world, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not copied yet, and how old its oldest record is."""
    world.source.add_topic("orders")
    for number in range(3):
        world.source.append(TopicPartition("orders", 0), key=None, value=b"v", timestamp=number + 1)
    code, status, _ = _status(world, capsys)
    assert (code, status["state"], status["lag_records"]) == (0, "active", 3)
    assert status["rpo_seconds"] > 0
    assert [(it["topic"], it["lag_records"]) for it in status["topics"]] == [("orders", 3)]


def test_a_lost_source_is_exit_3_with_what_is_known(world, capsys: pytest.CaptureFixture[str]) -> None:
    """After a disaster the target tells what was last known, and a script learns that nobody knows what is now."""
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()
    world.source.topic_names = _lost
    code, status, told = _status(world, capsys)
    assert (code, status["state"], status["source_reachable"], status["error"]) == (3, "active", False, None)
    assert "A->B: the source is out of reach, so how far the copy is behind now is not known" in told


def test_a_lost_source_hides_no_lost_copy(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by the exit code nor by the title: its numbers are those of the last report, whose time comes first."""
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()
    world.source.topic_names = _lost
    del world.target.topics["A.orders"]
    assert 1 == main(["status", "--config", str(world.file)])
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("A->B: THE SOURCE IS OUT OF REACH: what the gate said, it said before")
    assert "1 topic stopped until a person acts" in told
    assert "the source is out of reach; by the last report, of 20" in told
    assert told.index("by the last report") < told.index("0 records behind")
    assert "A.orders, the copy of orders, was deleted from B" in told


def test_a_lost_target_is_exit_3_with_the_shape_kept(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is known then, and the document says so."""
    world.source.topic_names = world.target.latest_records = _lost
    code, status, err = _status(world, capsys)
    assert (code, status["state"], status["topics"], status["error"]["code"]) == (
        3,
        "unknown",
        [],
        "unreachable",
    )
    assert err == "A->B: error: cluster A is away\n"


def test_people_see_what_is_in_the_way(world, capsys: pytest.CaptureFixture[str]) -> None:
    """A problem of a topic stands under the table of lags."""
    world.source.add_topic("orders", partitions=3)
    world.target.add_topic("A.orders", partitions=1).operations = frozenset({"DESCRIBE"})
    assert main(["status", "--config", str(world.file)]) == 1
    out = capsys.readouterr().out
    assert ("A->B: active" in out, "A->B: in the way" in out) == (True, True)


@pytest.fixture
def recreated(world):
    """A flow in which `orders` was deleted on the source and created again, and `clicks` was not."""
    flow = load(world.file).flows["A->B"]
    world.target.add_topic(flow.ledger_topic, configs={"cleanup.policy": "compact"})
    for name in ("orders", "clicks"):
        copy = world.target.add_topic(f"A.{name}")
        topic = world.source.add_topic(name, partitions=2)
        known = Incarnation(
            name, "old" if name == "orders" else topic.topic_id, 1, f"A.{name}", copy.topic_id
        )
        write_ledger(flow, world.target, [known])
    return world


def test_a_stopped_topic_has_a_row_with_the_reason(recreated, capsys: pytest.CaptureFixture[str]) -> None:
    """The first line counts what is stopped; a person has to act, so the exit code is 1; it is in no lag."""
    code, status, _ = _status(recreated, capsys)
    assert 1 == code
    assert [("orders", "A.orders", 2, "recreated", True)] == [
        (it["topic"], it["remote_topic"], it["partitions"], it["code"], it["person"])
        for it in status["stopped"]
    ]
    assert ["clicks"] == [it["topic"] for it in status["topics"]]
    assert 1 == main(["status", "--config", str(recreated.file)])
    out = capsys.readouterr().out
    assert "1 topic stopped until a person acts" in out
    assert any("A.orders" in line and "stopped: " in line for line in out.splitlines())


def test_what_the_next_cycle_decides_waits_for_nobody(recreated, capsys: pytest.CaptureFixture[str]) -> None:
    """A policy says what becomes of a recreated topic: it is stopped, and no person has to act."""
    with recreated.file.open("a") as file:
        file.write("A->B.twinlog.on.recreated = append\n")
    code, status, _ = _status(recreated, capsys)
    assert (0, [False]) == (code, [it["person"] for it in status["stopped"]])


def test_the_plan_of_a_stopped_topic_is_exit_1(recreated, capsys: pytest.CaptureFixture[str]) -> None:
    """No cycle copies it before a person acts."""
    assert 1 == main(["plan", "--config", str(recreated.file), "--output", "json"])
    captured = capsys.readouterr()
    assert [(True, None)] == [(it["needs_person"], it["error"]) for it in json.loads(captured.out)["flows"]]


def test_before_the_first_cycle_nothing_is_called_0(world, capsys: pytest.CaptureFixture[str]) -> None:
    """A flow that never ran is not one that has caught up."""
    world.source.add_topic("orders")
    assert 0 == main(["status", "--config", str(world.file)])
    first, _, title = capsys.readouterr().out.splitlines()[:3]
    assert "A->B: NEVER RAN: `twinlog run --once`, or unpause its Dag" == first
    assert "A->B: active, no cycle has ever ended" in title
    assert (False, False) == ("0 records" in title, "0.0 s" in title)
    _, status, _ = _status(world, capsys)
    assert status["has_run"] is False


def test_a_named_topic_has_the_tables_and_the_flow_its_sums(
    world, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing of the other topic is not hidden by looking at one."""
    for topic in ("orders", "payments"):
        world.source.add_topic(topic)
    world.source.append(TopicPartition("payments", 0), key=None, value=b"v", timestamp=1)
    code, status, _ = _status(world, capsys, "--topic", "orders")
    assert (0, ["orders"], 1) == (code, [topic["topic"] for topic in status["topics"]], status["lag_records"])


def test_a_topic_that_nobody_copies_is_no_empty_answer(world, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt name would read as: nothing is missing."""
    world.source.add_topic("orders")
    code, status, told = _status(world, capsys, "--topic", "order")
    assert (2, "unknown") == (code, status["state"])
    assert "nothing is known of topic order: the flow does not copy it" in told

"""`twinlog status`: lag, gaps and the state of each flow."""

import json
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.errors import ClusterUnreachable
from twinlog.kafka_types import TopicPartition


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


def test_a_lost_source_is_no_failure(world, capsys: pytest.CaptureFixture[str]) -> None:
    """After a disaster the target tells what was last known."""
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()
    world.source.topic_names = _lost
    code, status, _ = _status(world, capsys)
    assert (code, status["state"], status["source_reachable"], status["error"]) == (0, "active", False, None)


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
    assert main(["status", "--config", str(world.file)]) == 0
    out = capsys.readouterr().out
    assert ("A->B: active" in out, "A->B: in the way" in out) == (True, True)

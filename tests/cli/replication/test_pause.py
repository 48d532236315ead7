"""`twinlog pause`, `resume` and `rebuild --dry-run`, over clusters in memory."""

import io
import json
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.kafka_types import TopicPartition


def _json(world, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any], str]:
    code = main([*words, "--config", str(world.file), "--output", "json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out or "{}"), captured.err


@pytest.fixture
def copied(world, capsys: pytest.CaptureFixture[str]):
    """The world after its first cycle over one topic."""
    world.source.add_topic("orders")
    main(["run", "--once", "--config", str(world.file)])
    capsys.readouterr()
    return world


def test_a_paused_topic_is_shown_by_plan_and_status(copied, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is planned, and both say so; resumed, it is planned again."""
    copied.source.append(TopicPartition("orders", 0), key=None, value=b"v")
    code, said, _ = _json(copied, capsys, "pause", "--topic", "orders", "--reason", "load")
    assert (0, ["orders"]) == (code, [it["topic"] for it in said["flows"][0]["paused"]["topics"]])
    plan = _json(copied, capsys, "plan")[1]["flows"][0]
    assert (["orders"], []) == (plan["paused"], plan["ranges"])
    assert ["load"] == [it["reason"] for it in _json(copied, capsys, "status")[1]["flows"][0]["paused"]]
    assert 0 == _json(copied, capsys, "resume", "--topic", "orders")[0]
    assert [1] == [it["end"] for it in _json(copied, capsys, "plan")[1]["flows"][0]["ranges"]]


def test_a_paused_flow_runs_and_changes_nothing(copied, capsys: pytest.CaptureFixture[str]) -> None:
    """`run` says who paused it and why."""
    _json(copied, capsys, "pause", "--reason", "brokers move")
    copied.source.add_topic("new")
    code, said, err = _json(copied, capsys, "run", "--once")
    assert (0, "nothing", False) == (code, said["flows"][0]["state"], "A.new" in copied.target.topics)
    assert "brokers move" in err
    assert "paused" == _json(copied, capsys, "status")[1]["flows"][0]["state"]


def test_a_topic_of_no_flow_cannot_be_paused(copied, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error is wrong usage, not a pause nobody notices."""
    code, _, err = _json(copied, capsys, "pause", "--topic", "odrers", "--reason", "load")
    assert (2, True, True) == (
        code,
        "topic odrers: " in err,
        "--topic takes names of source topics" in err,
    )


def test_without_a_terminal_a_rebuild_names_its_option(
    copied, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can answer the question: nothing is done, and --yes is how a script says so."""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    calls = list(copied.target.calls)
    code, _, err = _json(copied, capsys, "topics", "rebuild", "--topic", "orders")
    assert (2, True, calls) == (
        code,
        "nothing was done; --yes answers beforehand" in err,
        copied.target.calls,
    )


def test_a_dry_run_of_a_rebuild_says_what_would_go(copied, capsys: pytest.CaptureFixture[str]) -> None:
    """Records in the copy and on the source; nothing is touched."""
    for number in range(3):
        copied.source.append(TopicPartition("orders", 0), key=None, value=b"%d" % number)
    code, said, _ = _json(copied, capsys, "topics", "rebuild", "--topic", "orders", "--dry-run")
    assert (0, 0, 3, "A.orders") == (
        code,
        said["copied_records"],
        said["source_records"],
        said["remote_topic"],
    )
    assert "A.orders" in copied.target.topics


def test_a_rebuild_of_no_topic_is_refused(copied, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line."""
    code, _, err = _json(copied, capsys, "topics", "rebuild", "--topic", "odrers", "--dry-run")
    assert (2, True) == (code, "does not copy odrers" in err)

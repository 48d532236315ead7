"""`twinlog translate`, `groups` and `show` over clusters in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.config.flow.load import load
from twinlog.formats.ledger.records import Incarnation
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import write_ledger

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def copied(world: Any) -> Any:
    """Ten records of orders, copied to offsets 5 and on."""
    world.source.add_topic("orders")
    world.target.add_topic("A.orders")
    for number in range(10):
        world.source.append(ORDERS, key=b"k", value=b"v", timestamp=1000 + number)
    for number in range(15):
        world.target.append(TopicPartition("A.orders", 0), key=b"k", value=b"v", timestamp=995 + number)
    flow = load(world.file).flows["A->B"]
    for topic in (flow.offset_map_topic, flow.ledger_topic, flow.offsets_topic):
        world.target.add_topic(topic)
    topic_id = world.source.topics["orders"].topic_id
    key, piece = MapKey("orders", topic_id, 0, 0), MapSegment(0, 10, (Extent(0, 5, 10),))
    at = TopicPartition(flow.offset_map_topic, 0)
    world.target.append(at, key=encode_map_key(key), value=encode_segment(piece))
    write_ledger(flow, world.target, [Incarnation("orders", topic_id, 1, "A.orders")])
    world.source.commit("billing,é", ORDERS, 4)
    return world


def run(capsys: pytest.CaptureFixture[str], world: Any, *words: str) -> tuple[int, Any]:
    code = main([*words, "--config", str(world.file), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_group(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON others rely on; its topic is the target's."""
    code, [row] = run(capsys, copied, "translate", "--group", "billing,é")
    assert 0 == code
    expected = {
        "group": "billing,é",
        "topic": "A.orders",
        "partition": 0,
        "upstream_offset": 4,
        "downstream_offset": 9,
        "exact": True,
    }
    assert expected == {name: row[name] for name in expected}


def test_offsets_on_the_line_and_back(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """topic:partition:offset, either way; one without an answer makes the exit code 1."""
    code, rows = run(capsys, copied, "translate", "orders:0:0", "orders:0:99")
    assert (1, [5, None], "beyond-end") == (code, [it["downstream_offset"] for it in rows], rows[1]["reason"])
    code, [row] = run(capsys, copied, "translate", "--reverse", "A.orders:0:9")
    assert (0, 4) == (code, row["upstream_offset"])


def test_a_spark_file_is_written_in_its_form(
    copied: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With the target's names and offsets; -1 stays."""
    file, out = tmp_path / "in.json", tmp_path / "out.json"
    file.write_text('{"orders": {"0": 4}}')
    code, _ = run(capsys, copied, "translate", "--offsets", str(file), "--write", str(out))
    assert (0, {"A.orders": {"0": 9}}) == (code, json.loads(out.read_text()))
    back = tmp_path / "back.json"
    code, _ = run(capsys, copied, "translate", "--reverse", "--offsets", str(out), "--write", str(back))
    assert (0, {"orders": {"0": 4}}) == (code, json.loads(back.read_text()))


def test_words_go_with_the_name_of_the_copy(
    copied: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A topic of which a file says no number has its name translated, too; one that is nowhere refuses the file."""
    file, out = tmp_path / "in.json", tmp_path / "out.json"
    file.write_text('{"orders": {"0": -1}}')
    code, rows = run(capsys, copied, "translate", "--offsets", str(file), "--write", str(out))
    assert (0, [], {"A.orders": {"0": -1}}) == (code, rows, json.loads(out.read_text()))
    code, _ = run(capsys, copied, "translate", "--reverse", "--offsets", str(out), "--write", str(file))
    assert (0, {"orders": {"0": -1}}) == (code, json.loads(file.read_text()))
    file.write_text('{"payments": {"0": -2}}')
    out.unlink()
    words = ("translate", "--offsets", str(file), "--write", str(out), "--config", str(copied.file))
    assert (1, False) == (main([*words]), out.exists())
    assert f"{out} was not written: A has no topic payments" in capsys.readouterr().err


def test_nothing_is_written_when_one_offset_has_no_answer(
    copied: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file that lacks some would be read as complete."""
    file, out = tmp_path / "in.csv", tmp_path / "out.csv"
    file.write_text("billing,orders,0,4\nbilling,orders,0,400\n")
    code, _ = run(capsys, copied, "translate", "--offsets", str(file), "--write", str(out))
    assert (1, False) == (code, out.exists())


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    copied: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cluster is asked for what could not be kept."""
    monkeypatch.setattr("twinlog.cluster.api.open_clusters", lambda _: 1 // 0)
    file = tmp_path / "in.json"
    file.write_text('{"orders": {"0": 4}}')
    words = ("translate", "--offsets", str(file), "--write", "/nowhere/x", "--config", str(copied.file))
    assert 2 == main([*words])
    assert "/nowhere/x cannot be written: No such file or directory; check --write" in capsys.readouterr().err


def test_a_time(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The first record then, in every partition."""
    code, [row] = run(capsys, copied, "translate", "--at", "1970-01-01T00:00:01.006Z")
    assert (0, 6, 11) == (code, row["upstream_offset"], row["downstream_offset"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to translate"),
        (["orders:0"], "is no offset"),
        (["orders:²:1"], "is no offset"),
        (["orders:0:²"], "is no offset"),
        (["orders:0:9223372036854775808"], "is no offset"),
        (["--group", "g", "--topics", "orders"], "--topic bounds what --at finds"),
        (["orders:0:1", "--topics", "orders"], "--topic bounds what --at finds"),
        (["orders:0:1", "--flow", "B->A"], "flow B->A"),
        (["orders:0:1", "--group", "g"], "in one go"),
        (["--group", "g", "--reverse"], "--reverse takes offsets of the target"),
        (["orders:0:1", "--at", "2026-01-01T00:00:00Z"], "--at finds offsets by time"),
        (["--at", "noon"], "--at: 'noon' is no time"),
        (["--at", "2999-01-01T00:00:00Z"], "--at: 2999-01-01T00:00:00Z has not come yet"),
        (["--group", "g", "--write", "x"], "--write writes the form"),
        (["--offsets", "/nowhere/file"], "cannot be read"),
        (["--group", "nobody"], "A has no group nobody"),
    ],
)
def test_mistakes_on_the_line(
    copied: Any, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """Exit code 2 and one line."""
    assert 2 == main(["translate", *words, "--config", str(copied.file)])
    assert said in capsys.readouterr().err


def test_negative_offsets_are_answered(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a usage error: the one offset is wrong, and said to be."""
    code, [row] = run(capsys, copied, "translate", "orders:0:-5")
    assert (1, "negative") == (code, row["reason"])


def test_what_cannot_be_read_is_said(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Why, and exit code 1."""
    at = TopicPartition("mm2-offset-map.A.internal", 0)
    key = copied.target.topics[at.topic].logs[0].records[0].key
    copied.target.append(at, key=b"\x09" + key[1:], value=b"\x01")
    assert 1 == main(["translate", "orders:0:1", "--config", str(copied.file)])
    assert "offset map key has version 9" in capsys.readouterr().err


def test_groups_say_what_they_are_worth(copied: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """One row a position; nothing is written."""
    calls = list(copied.target.calls)
    code, document = run(capsys, copied, "groups")
    [row] = document["flows"][0]["rows"]
    assert ("billing,é", 9, True) == (row["group"], row["downstream_offset"], row["exact"])
    assert calls == copied.target.calls
    assert code == int(row["state"] == "wrongly-not")
    _, none = run(capsys, copied, "groups", "--groups", "other")
    assert (0, []) == (none["flows"][0]["groups"], none["flows"][0]["rows"])

"""`twinlog plan`: what the next cycle would do."""

import json
from typing import Any

import pytest

from twinlog.cli.main import main
from twinlog.formats.mm2.records import OffsetSync
from twinlog.kafka_types import TopicPartition


def _plan(world, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    code = main(["plan", "--config", str(world.file), "--output", "json", *options])
    return code, json.loads(capsys.readouterr().out)["flows"][0]


def _fill(world, topic: str, records: int) -> None:
    for number in range(records):
        world.source.append(TopicPartition(topic, 0), key=None, value=b"v", timestamp=number * 1000)


def test_the_shape_stays(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields may be added, these stay."""
    _, plan = _plan(world, capsys)
    assert set(plan) >= {
        "flow",
        "changes",
        "refused",
        "problems",
        "left_out",
        "ranges",
        "stopped",
        "upcoming",
        "lanes",
        "records",
    }


def test_a_new_topic_is_planned_with_its_records(world, capsys: pytest.CaptureFixture[str]) -> None:
    """The cycle that creates a copy also fills it."""
    world.source.add_topic("orders", partitions=2)
    _fill(world, "orders", 5)
    code, plan = _plan(world, capsys)
    assert (code, plan["flow"], plan["records"]) == (0, "A->B", 5)
    assert plan["upcoming"] == [
        {"topic": "orders", "remote_topic": "A.orders", "partitions": 2, "records": 5}
    ]
    assert ("create", "A.orders", 2) in {(it["kind"], it["name"], it["partitions"]) for it in plan["changes"]}


def test_an_existing_topic_is_planned_by_ranges(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Offsets [start, end) of each partition, bounded by --until."""
    world.source.add_topic("orders")
    world.target.add_topic("A.orders")
    _fill(world, "orders", 5)
    _, plan = _plan(world, capsys, "--until", "1970-01-01T00:00:03Z")
    assert [(it["topic"], it["partition"], it["start"], it["end"]) for it in plan["ranges"]] == [
        ("orders", 0, 0, 3)
    ]
    assert (plan["records"], plan["lanes"]) == (3, [["orders-0"]])


def test_nothing_is_changed(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither topics nor records appear anywhere."""
    world.source.add_topic("orders")
    _plan(world, capsys)
    assert (list(world.target.topics), world.target.calls, world.source.calls) == ([], [], [])


def test_a_named_topic_limits_the_plan(world, capsys: pytest.CaptureFixture[str]) -> None:
    """--topics leaves the others alone; a topic the flow does not have is wrong usage."""
    for topic in ("orders", "payments"):
        world.source.add_topic(topic)
        world.target.add_topic(f"A.{topic}")
        _fill(world, topic, 1)
    _, plan = _plan(world, capsys, "--topics", "payments")
    assert [it["topic"] for it in plan["ranges"]] == ["payments"]
    code, plan = _plan(world, capsys, "--topics", "invoices")
    assert (code, plan["error"]["code"]) == (2, "usage")


def test_people_see_what_is_to_come(world, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables name the change, the ranges and what is in the way."""
    world.source.add_topic("orders", partitions=3)
    world.target.add_topic("A.orders", partitions=1).operations = frozenset({"DESCRIBE"})
    assert main(["plan", "--config", str(world.file)]) == 1, "a person has to grant ALTER"
    out = capsys.readouterr().out
    assert ("A->B: topics of the target" in out, "nothing to copy" in out) == (True, True)
    assert "grant ALTER on topic A.orders" in out


def test_heartbeats_that_the_next_cycle_makes_on_the_source_are_said(
    world, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan cannot see the topic's copy yet, but says that there will be one."""
    world.file.write_text(world.file.read_text().replace("B->A.emit.heartbeats.enabled = false\n", ""))
    main(["plan", "--config", str(world.file), "--output", "json"])
    captured = capsys.readouterr()
    note = "heartbeats is to be made on A first, and copied"
    assert note in json.loads(captured.out)["flows"][0]["notes"]
    assert f"warning: A->B: {note}" in captured.err
    assert {} == dict(world.source.topics)


def test_copies_that_mirror_maker_made_wait_for_a_person(world, capsys: pytest.CaptureFixture[str]) -> None:
    """The first cycle is refused, so the plan does not just count what it would copy a second time."""
    world.source.add_topic("orders")
    _fill(world, "orders", 5)
    world.target.add_topic("A.orders")
    world.target.append(TopicPartition("A.orders", 0), key=None, value=b"v")
    world.source.add_topic("mm2-offset-syncs.B.internal")
    sync = OffsetSync("orders", 0, 0, 0)
    world.source.append(TopicPartition("mm2-offset-syncs.B.internal", 0), key=sync.key(), value=sync.value())
    code, plan = _plan(world, capsys)
    assert (1, True) == (code, plan["needs_person"])
    assert any("twinlog migrate takeover" in it for it in plan["notes"])

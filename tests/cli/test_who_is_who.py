"""Commands that read the state of a flow first ask whether its clusters are those that the state is about."""

import json
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.cli.main import main
from twinlog.config.flow.load import load
from twinlog.errors import ClusterUnreachable
from twinlog.formats.ledger.records import Incarnation
from twinlog.formats.ledger.writers import FlowClaim
from twinlog.state.ledger import write_ledger

COMMANDS = (
    ("status",),
    ("plan",),
    ("audit",),
    ("gate", "--still-writing"),
    ("groups",),
    ("translate", "orders:0:1"),
    ("translate", "--group", "nobody"),
    ("translate", "--at", "2026-01-01T00:00:00Z"),
    ("topics", "gaps"),
    ("topics", "forget", "--topic", "orders", "--dry-run"),
    ("topics", "rebuild", "--topic", "orders", "--dry-run"),
    ("accept",),
    ("accept", "no-gaps", "--up-to", "1", "--reason", "known"),
    ("accept", "no-gaps", "--withdraw"),
    ("metadata", "plan"),
    ("metadata", "apply"),
)


@pytest.fixture
def begun(world: Any) -> Any:
    """A flow that was begun between its two clusters, and has copied a topic."""
    flow = load(world.file).flows["A->B"]
    for topic in (flow.offset_map_topic, flow.ledger_topic, flow.offsets_topic, "A.orders"):
        world.target.add_topic(topic)
    topic_id = world.source.add_topic("orders").topic_id
    ids = world.source.cluster_id(), world.target.cluster_id()
    known = [FlowClaim("A->B", *ids, 1), Incarnation("orders", topic_id, 1, "A.orders", ids[0])]
    write_ledger(flow, world.target, known)
    return world


@pytest.mark.parametrize("topics", [(), ("orders",)], ids=["an empty cluster", "one with the same topic"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_another_cluster_under_the_sources_name_is_said_first(
    begun: Any, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], topics: tuple[str, ...]
) -> None:
    """Nothing is answered from it, also if it has neither topics nor groups; the target is left as it was."""
    begun.source = FakeCluster("A", cluster_id="replaced")
    for topic in topics:
        begun.source.add_topic(topic)
    before = list(begun.target.calls)
    code = main([*words, "--config", str(begun.file)])
    assert (1, before) == (code, begun.target.calls)
    assert "A is another cluster than the one that A->B was begun with" in capsys.readouterr().err


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_another_cluster_under_the_targets_name_is_said_first(
    begun: Any, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """A copy of the state on another cluster, such as a restored disk, is not the state of this flow."""
    begun.target.cluster_id = lambda: "replaced"
    assert 1 == main([*words, "--config", str(begun.file)])
    assert "B is another cluster than the one that A->B was begun with" in capsys.readouterr().err


def test_a_source_that_is_gone_is_not_another_one(begun: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """After a disaster the target answers alone."""

    def away() -> str:
        raise ClusterUnreachable("cluster A is away", cluster="A")

    begun.source.cluster_id = away
    assert 0 == main(["accept", "--config", str(begun.file), "-o", "json"])
    assert {"flow": "A->B", "accepted": []} == json.loads(capsys.readouterr().out)


def _accept(begun: Any, subject: str) -> int:
    words = ("--for", subject, "--up-to", "1", "--reason", "known")
    return main(["accept", "no-gaps", *words, "--config", str(begun.file)])


def test_what_is_accepted_is_known_to_the_flow(begun: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt topic would be accepted for nobody; what a source that is gone has, it cannot say."""
    assert (0, 2) == (_accept(begun, "orders"), _accept(begun, "order"))
    assert "--for: A->B knows no topic or group order" in capsys.readouterr().err

    def away() -> tuple[str, ...]:
        raise ClusterUnreachable("cluster A is away", cluster="A")

    begun.source.topic_names = away
    assert 0 == _accept(begun, "order")
    assert "A is out of reach" in capsys.readouterr().err

"""Two who change a flow's state at once decide one after the other, on a cluster in memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.accepted import Accepted
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.gate.accepting import accept, withdraw
from twinlog.state.changes import TRIES, Entries, change
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.topics import pauses

REPORTERS = {
    "audit/audit": "what an audit proved, by partition",
    "copying/result": "what the last copy did",
    "drill/clones": "what a drill did, under its run's name",
    "drill/drill": "that a drill goes on, and how, under its run's name",
    "gate/accepting": "what a look showed, under its digest",
    "gate/record": "what the gate answered",
    "metadata/apply_plan": "that a plan was applied, under its digest",
    "monitoring/publish": "what a cycle saw",
}
"""Modules that write reports without a turn: nobody decides by them what to write."""


def yes(subject: str, up_to: int) -> Accepted:
    return Accepted("no-gaps", subject, "known", "jo", "login on host x", 1, None, up_to)


def promoted(flow, target) -> None:
    """Write what a promotion leaves, behind a fence: it takes the turn, too."""
    target.turn(flow.name, flow.ledger_topic, 1)
    write_ledger(flow, target, [FlowState(FlowPhase.PROMOTED, 1, "jo", "disaster")])


class TestRace:
    def test_a_pause_does_not_undo_a_promotion(self, flow, target, with_internal):
        """That came between its reading and its writing: it is refused, and the flow stays promoted."""
        target.meanwhile.append(lambda: promoted(flow, target))
        with pytest.raises(TerminalError, match="promoted by jo"):
            pauses.pause(flow, target, by="eve", reason="load")
        assert FlowPhase.PROMOTED is read_ledger(flow, target).phase

    def test_a_resume_does_not_undo_a_failover(self, flow, target, with_internal):
        """A flow that is failing over since copies nothing."""
        pauses.pause(flow, target, by="jo", reason="load")
        target.meanwhile.append(lambda: promoted(flow, target))
        with pytest.raises(TerminalError, match="promoted by jo"):
            pauses.resume(flow, target, by="eve", reason="done")
        assert FlowPhase.PROMOTED is read_ledger(flow, target).phase

    def test_two_acceptances_stand_both(self, flow, target, with_internal):
        """And of one subject the one given last."""
        target.meanwhile.append(lambda: accept(flow, target, [yes("users", 3), yes("orders", 9)]))
        accept(flow, target, [yes("orders", 5)])
        assert {"users": 3, "orders": 5} == {
            it.subject: it.up_to for it in read_ledger(flow, target).accepted
        }

    def test_two_pauses_of_one_topic_are_one(self, flow, target, with_internal):
        """The first one's reason stands, and the second changed nothing."""
        target.meanwhile.append(lambda: pauses.pause(flow, target, topics=["t"], by="jo", reason="first"))
        late = pauses.pause(flow, target, topics=["t", "u"], by="eve", reason="second")
        assert {"t": "first", "u": "second"} == {it.topic: it.reason for it in late.topics}

    def test_two_resumes_of_one_topic_are_one(self, flow, target, with_internal):
        """It is not paused, and both may say so."""
        pauses.pause(flow, target, topics=["t"], by="jo", reason="load")
        target.meanwhile.append(lambda: pauses.resume(flow, target, topics=["t"], by="jo", reason=""))
        assert () == pauses.resume(flow, target, topics=["t"], by="eve", reason="").topics

    def test_who_is_always_overtaken_gives_up(self, flow, target, with_internal):
        """Nothing is written."""
        before = target.latest(flow.ledger_topic)
        target.meanwhile += [lambda: target.turn(flow.name, "", 1)] * TRIES
        with pytest.raises(TransientError):
            accept(flow, target, [yes("orders", 5)])
        assert before == target.latest(flow.ledger_topic)


class TestChange:
    def test_a_lost_answer_is_no_second_writing(self, flow, target, with_internal, monkeypatch):
        """What stands in the ledger is not decided on again."""
        produce, asked = target.produce, []

        def lost(topic, records):
            produce(topic, records)
            monkeypatch.setattr(target, "produce", produce)
            raise TransientError("no answer")

        def decide(ledger):
            asked.append(ledger)
            return Entries([yes("orders", len(asked))])

        monkeypatch.setattr(target, "produce", lost)
        assert change(flow, target, decide)
        assert (2, [2]) == (len(asked), [it.up_to for it in read_ledger(flow, target).accepted])

    def test_nothing_to_do_takes_no_turn(self, flow, target, with_internal):
        """A cycle that changes nothing ends nobody's turn."""
        assert not change(flow, target, lambda _: Entries())
        assert 0 == target.turns[flow.name]

    def test_what_is_forgotten_is_gone(self, flow, target, with_internal):
        """With all of its forms."""
        accept(flow, target, [yes("orders", 5)])
        withdraw(flow, target, yes("orders", 5))
        assert () == read_ledger(flow, target).accepted


def calls(repository: Path) -> Iterator[tuple[str, str]]:
    """Yield each module with the names that it calls."""
    root = repository / "include" / "twinlog"
    for module in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                yield module.relative_to(root).with_suffix("").as_posix(), name


def test_nobody_else_writes_a_ledger(repository):
    """Reports by the list above; all other state in a turn, or by the driver of a fence."""
    found = {module for module, name in calls(repository) if name == "write_ledger"}
    assert set(REPORTERS) == found
    assert {"cluster/turn", "copying/ownership"} == {
        module for module, name in calls(repository) if name == "write_fenced"
    }
    turns = {module for module, name in calls(repository) if name == "turn"}
    assert {"observe/run", "offset_sync/map_compaction", "state/changes"} == turns - {"protocol/fetcher"}, (
        "the fetcher's turns are of partitions"
    )

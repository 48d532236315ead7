"""What was not looked at comes out of no surface as good news: a law over flows from which one fact is taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recovery_world import COPY, World, new_world

from twinlog.airflow.plugin.flow_page import coverage_rows, topics_of
from twinlog.airflow.tasks.failover import rows
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, TwinlogError
from twinlog.facts.copies import coverage_of
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.facts.recall import recall
from twinlog.gate import ask
from twinlog.gate.answer import GateResult
from twinlog.gate.ask import GateRequest
from twinlog.gate.evidence import Seal, verify
from twinlog.jsonable import to_json
from twinlog.judge.check import Mode
from twinlog.monitoring import publish, samples, status
from twinlog.monitoring.status import FlowStatus
from twinlog.recovery import failover
from twinlog.recovery.journal import Journal
from twinlog.recovery.procedure import Actor
from twinlog.recovery.steps import world as steps
from twinlog.recovery.steps.ending import approve
from twinlog.recovery.steps.loss import read_loss
from twinlog.recovery.steps.world import LOOKING, Answer, Request
from twinlog.topics.snapshot import FlowSnapshot

LIVE = GateRequest(Mode.PLANNED, still_writing=True)
NO = ClusterRefused("it cannot be looked at")


@dataclass(frozen=True)
class Taken:
    """One fact, how it is taken away, and what rests on it: a check, the number of records missing, what is proved.

    `left`: a dry run tells what is left with doubt.
    """

    name: str
    take: Callable[[World], object]
    check: str = ""
    missing: bool = False
    proved: bool = False
    left: bool = False


def refuse(side: str, verb: str, item: str) -> Callable[[World], None]:
    return lambda world: getattr(world.clusters, side).refuse(verb, item, NO)


def forget(topic: str, kind: bytes = b"") -> Callable[[World], None]:
    """Let a topic of the flow's state lose the records about `orders`, or of one kind."""

    def take(world: World) -> None:
        for log in world.clusters.target.topics[getattr(world.flow, topic)].logs:
            log.records = [it for it in log.records if (kind or b"orders") not in (it.key or b"")]

    return take


def wait_unread(world: World) -> None:
    """Let a record wait that nobody may read."""
    world.write(1)
    world.clusters.source.refuse("read_records", "orders", NO)


def delete(world: World) -> None:
    del world.clusters.target.topics[COPY.topic]


ANYWHERE = (
    Taken("the copy's offsets", refuse("target", "offsets", COPY.topic), "copy-not-cut-off", left=True),
    Taken("the copy", delete),
    Taken("the map", forget("offset_map_topic"), "map-known", proved=True),
    Taken("the audit", forget("ledger_topic", b"audit"), "audit-promised", proved=True),
    Taken("the copy's configuration", refuse("target", "topic_configs", COPY.topic)),
)
OBSERVED = (
    *ANYWHERE,
    Taken("the source's ends", refuse("source", "offsets", "orders"), "every-partition-seen", missing=True),
    Taken("the topic", refuse("source", "describe_topics", "orders"), "nothing-blocked", missing=True),
    Taken("the first record that waits", wait_unread, missing=True),
    Taken("the copy's description", refuse("target", "describe_topics", COPY.topic), missing=True),
    Taken("the topic's configuration", refuse("source", "topic_configs", "orders")),
    Taken("a group's positions", refuse("source", "committed_offsets", "billing"), "group-covered"),
    Taken("progress", forget("offsets_topic"), "progress-never-goes-back", missing=True),
)
RECALLED = (
    *ANYWHERE,
    Taken("the copy's description", refuse("target", "describe_topics", COPY.topic)),
    Taken("progress", forget("offsets_topic"), "progress-never-goes-back"),
    Taken("the last report", forget("ledger_topic", b"cycle-report"), "flow-has-run", missing=True),
    Taken(
        "the last picture of the source", forget("ledger_topic", b"known-source"), "known-rpo", missing=True
    ),
    Taken("a look at the partition", lambda world: None, "known-partitions-seen", missing=True),
    Taken("a recent report", lambda world: None, "state-age"),
    Taken("a group's positions there", refuse("target", "committed_offsets", "billing")),
)


def sound(flow: FlowSettings, folder: Path, others: int, partitions: int) -> World:
    """A flow of which all is copied, proved and reported, with other topics that stay sound."""
    world = new_world(flow, folder)
    for number in range(others):
        world.clusters.source.add_topic(f"other-{number}", partitions)
    world.cycle()
    world.audit()
    return world


def lost(world: World, taken: Taken) -> World:
    """Lose the source, and the fact."""
    if taken.name == "a look at the partition":
        world.clusters.source.refuse("offsets", "orders", NO)
        publish.run(world.flow, world.clusters, "blind", None, 0)
    if taken.name == "a recent report":
        world.flow = replace(world.flow, gate=replace(world.flow.gate, state_age_seconds=0))
    taken.take(world)
    world.lose_source()
    return world


ZERO = re.compile(r"(?<!at least )\b0 records (are|were)|most 0 (records|s)|nothing is (left|lost)|\bexact\b")
"""What nobody may say of what was not looked at."""

law = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
flows = given(others=st.integers(0, 2), partitions=st.integers(1, 2))


KEY = Ed25519PrivateKey.generate()


def is_ready(world: World, taken: Taken, request: GateRequest) -> bool:
    """Ask the gate; an error is no yes.  The check that rests on the fact fails by name.  So says the evidence."""
    try:
        result = ask.run(world.flow, world.clusters, request).result
    except TwinlogError:
        return False
    assert taken.check in {"", *(it.name for it in result.checks if not it.passed)}
    evidence_of(result, taken)
    return result.ready


def evidence_of(result: GateResult, taken: Taken) -> None:
    """What is signed holds no number of what was taken away, and is no yes."""
    text = Seal("mm2.properties", "sha", KEY).document(result.at_ms, gate=to_json(result))
    found = json.loads(text)["payload"]["gate"]
    orders = {name: [it for it in found[name] if it["topic"] == "orders"] for name in ("topics", "coverage")}
    assert result.ready is found["ready"] is verify(text, KEY.public_key()).ready
    if taken.missing:
        assert 0 not in [it["records"] for it in orders["topics"]]
    if taken.proved:
        assert 100 not in [it["percent"] for it in orders["coverage"]]


def good_news(lines: Iterable[str]) -> list[str]:
    """The lines that say that nothing is missing, and nothing of a doubt."""
    return [it for it in lines if ZERO.search(it) and "not known" not in it]


def said(world: World, mode: Mode) -> list[str]:
    """What a dry run says, and what the Dag shows before its question; an error is no good news."""
    try:
        report = failover.run(world.flow, world.clusters, Request("jo", mode, dry_run=True))
    except TwinlogError as error:
        return [error.message]
    told = [it.message for it in report.steps if it.name.value in {"fence-producers", "drain", "loss"}]
    return [*told, *(text for name, text in rows(report) if name in {"missing", "lost", "estimate"})]


def question(world: World, mode: Mode) -> list[str]:
    """What a person is asked, if the steps before it are those of another process."""
    asked: list[str] = []

    def no(text: str) -> Answer:
        asked.append(text)
        return Answer.NO

    journal = Journal(world.flow, world.clusters, Actor("jo", ""), ask_source=False)
    try:
        tools, request = replace(LOOKING, approve=no), Request("jo", mode)
        approve(steps.World(world.flow, world.clusters, tools, journal, request, "", mode))
    except TwinlogError as error:
        return [error.message]
    assert asked
    return asked


def page_says_well(found: FlowStatus, facts: FlowFacts, taken: Taken) -> list[str]:
    """What the flow's page says well of the topic of which something was taken away."""
    topics = [it for it in topics_of(found).rows if it.name == "orders"]
    waits = [f"{it.word}, lag {it.lag}, {it.copied_up_to}" for it in topics if taken.missing]
    proved = [it.proved for it in coverage_rows(coverage_of(facts)) if it.name == "orders" and taken.proved]
    return [it for it in (*waits, *proved) if re.search(r"up to date|lag 0\b|\b(\d+) of \1\b|100 %", it)]


@flows
@law
@pytest.mark.parametrize("mode", [LIVE, GateRequest(Mode.SOURCE_DEAD)], ids=lambda it: it.mode.value)
def test_a_flow_of_which_all_is_known_is_ready(
    flow: FlowSettings, tmp_path: Path, mode: GateRequest, others: int, partitions: int
) -> None:
    """Otherwise the law would hold of a gate that always says no."""
    world = sound(flow, tmp_path, others, partitions)
    if mode.mode is Mode.SOURCE_DEAD:
        world.lose_source()
    assert () == ask.run(world.flow, world.clusters, mode).result.blocking
    found = status.run(world.flow, world.clusters)
    assert 0 == found.lag_records
    if mode.mode is Mode.PLANNED:
        everything = Taken("nothing", lambda _: None, missing=True, proved=True)
        assert 2 == len(page_says_well(found, observe(FlowSnapshot(world.flow, world.clusters)), everything))
        assert good_news(said(world, mode.mode)) and good_news(question(world, mode.mode))


@flows
@law
@pytest.mark.parametrize("taken", OBSERVED, ids=lambda it: it.name)
def test_with_the_source(
    flow: FlowSettings, tmp_path: Path, taken: Taken, others: int, partitions: int
) -> None:
    """Gate, status, metrics and the dry run of a planned failover."""
    world = sound(flow, tmp_path, others, partitions)
    taken.take(world)
    assert not is_ready(world, taken, LIVE)
    facts = observe(FlowSnapshot(world.flow, world.clusters))
    report = publish.make_report(world.flow, facts, "a-run", None, 0, failed=False)
    numbers = {
        (it.metric.name, it.labels): it.value for it in samples.of_report(world.flow, report, facts)
    } | {(it.metric.name, it.labels): it.value for it in samples.of_audits(facts)}
    found = status.run(world.flow, world.clusters)
    assert [] == page_says_well(found, facts, taken)
    if taken.missing:
        assert 0 not in (found.lag_records, report.lag_records, numbers.get(("lag_records", ("orders",))))
    if taken.missing or taken.left:
        assert [] == good_news([*said(world, Mode.PLANNED), *question(world, Mode.PLANNED)])
    if taken.proved:
        assert 1 != numbers.get(("audit_coverage_ratio", ("orders",)))


@flows
@law
@pytest.mark.parametrize("taken", RECALLED, ids=lambda it: it.name)
def test_without_the_source(
    flow: FlowSettings, tmp_path: Path, taken: Taken, others: int, partitions: int
) -> None:
    """Gate, status, loss and the dry run of a failover whose source is lost."""
    world = lost(sound(flow, tmp_path, others, partitions), taken)
    result = ask.run(world.flow, world.clusters, GateRequest(Mode.SOURCE_DEAD)).result
    assert not is_ready(world, taken, GateRequest(Mode.SOURCE_DEAD))
    assert {None} == {it.records for it in result.topics} or not result.topics
    loss = read_loss(FlowSnapshot(world.flow, world.clusters))
    facts = recall(FlowSnapshot(world.flow, world.clusters))
    assert [] == page_says_well(status.run(world.flow, world.clusters), facts, taken)
    if taken.missing:
        assert None is loss.known
        assert "not known" in loss.cost
        assert [] == good_news([*said(world, Mode.SOURCE_DEAD), *question(world, Mode.SOURCE_DEAD)])
    if taken.missing and taken.name != "the last picture of the source":
        assert 0 != status.run(world.flow, world.clusters).lag_records
    if taken.proved:
        orders = [it for it in result.coverage if it.topic == "orders"]
        assert 100 not in {it.percent for it in orders}

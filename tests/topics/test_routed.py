"""Topics to which rules route records: created once, never grown, and never made again without a word."""

from __future__ import annotations

from dataclasses import replace

from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.topics import CopiedThrough
from twinlog.lifecycle import sync_topics
from twinlog.lifecycle.sync_topics import make_plan
from twinlog.state.ledger import write_ledger
from twinlog.topics.plan import ChangeKind
from twinlog.topics.routed import ROUTED_DELETED
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.transforms.chain import Chain
from twinlog.transforms.routes import Partitioner, Route
from twinlog.transforms.rules import Rule


def routing(flow: FlowSettings, *rules: tuple[str, str]) -> FlowSettings:
    """The flow with rules that route source topics, by regex, to topics."""
    made = [
        Rule(f"r{n}", (topics,), route=Route(to, Partitioner.KEY)) for n, (topics, to) in enumerate(rules)
    ]
    return replace(flow, transforms=Chain(rules=tuple(made)))


def created(flow: FlowSettings, clusters) -> list[tuple[str, int, int]]:
    plan = make_plan(FlowSnapshot(flow, clusters))
    return [
        (it.name, it.partitions, it.replication_factor) for it in plan.changes if it.kind is ChangeKind.CREATE
    ]


def test_a_routed_topic_has_the_most_partitions_of_its_sources(flow, clusters, source, with_internal) -> None:
    """One of a rule that concerns no topic is not made; one that is there stays as it is."""
    for name, partitions in (("orders", 2), ("payments", 5), ("plain", 9)):
        source.add_topic(name, partitions)
        with_internal.add_topic(f"A.{name}", partitions)
    with_internal.add_topic("there", 1)
    flow = routing(flow, ("orders|payments", "alerts"), ("plain", "there"), ("nothing", "nowhere"))
    assert [("alerts", 5, 1)] == created(flow, clusters)
    assert "alerts" in {it.name for it in sync_topics.run(flow, clusters).changes}
    assert [] == created(flow, clusters)
    source.add_topic("orders", 20)
    assert [] == [it for it in created(flow, clusters) if it[0] == "alerts"]


def test_a_routed_topic_that_is_gone_is_refused_once_records_went_there(
    flow, clusters, source, target, with_internal
) -> None:
    """By the chain that the ledger notes; through another chain none was routed there."""
    source.add_topic("orders")
    with_internal.add_topic("A.orders")
    flow = routing(flow, ("orders", "alerts"))
    topic_id = source.describe_topics(["orders"]).found["orders"].topic_id
    write_ledger(flow, target, [CopiedThrough("orders", topic_id, 0, "another", 0)])
    assert [("alerts", 1, 1)] == created(flow, clusters)
    write_ledger(
        flow, target, [CopiedThrough("orders", topic_id, 0, flow.chain_of("orders", "A.orders").print, 0)]
    )
    plan = make_plan(FlowSnapshot(flow, clusters))
    (refused,) = plan.refused
    assert ("alerts", ROUTED_DELETED) == (refused.name, refused.code)
    assert "records of orders were routed to it" in refused.message

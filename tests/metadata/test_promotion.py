"""A plan kept in the ledger is a memory: what the flow would not do itself is not done by it."""

from __future__ import annotations

from dataclasses import replace

from fake_cluster import FakeCluster

from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.config.flow.metadata import Profile
from twinlog.formats.ledger.recovery import PromotionPlan
from twinlog.metadata import apply_plan
from twinlog.metadata.plan_file import plan_document
from twinlog.metadata.values import AclChange, ConfigChange, MetadataPlan, QuotaChange
from twinlog.state.ledger import Ledger

COPY = AclBinding("TOPIC", "LITERAL", "A.orders", "User:jo", "*", "WRITE", "ALLOW")
PAYROLL = replace(COPY, name="payroll", principal="User:mallory", operation="ALL")


def kept(of, there: FakeCluster, *changes: object, **other: str) -> Ledger:
    """A ledger of the flow from cluster-A that keeps a plan with a digest that fits."""
    plan = MetadataPlan(flow=other.get("flow", of.name), profile=Profile.PROMOTED, changes=changes)
    ids = other.get("source", "cluster-A"), other.get("target", there.cluster_id())
    return ledger_of(PromotionPlan(7, plan_document(plan, *ids, 7)))


def ledger_of(plan: PromotionPlan) -> Ledger:
    return Ledger(promotion_plan=plan, source_ids=frozenset({"cluster-A"}))


def test_only_changes_that_the_flow_makes_fit(flow):
    """A forged grant, or a config, for a topic of the target is left out by name."""
    target = FakeCluster("B")
    for name in ("A.orders", "payroll"):
        target.add_topic(name)
    config = ConfigChange("payroll", "retention.ms", None, "1")
    found = apply_plan.fitting(
        flow, kept(flow, target, AclChange(COPY, add=True), AclChange(PAYROLL, add=True), config), target
    )
    assert (AclChange(COPY, add=True),) == found.plan.changes
    assert 2 == len([it for it in found.outdated if "this flow makes no such change" in it])


def test_another_flows_plan_does_not_fit(flow):
    """Nor one for another cluster, nor one that is none: the failover goes on, and names it."""
    target = FakeCluster("B")
    change = AclChange(COPY, add=True)
    for it in (
        kept(flow, target, change, flow="X->B"),
        kept(flow, target, change, target="another"),
        kept(flow, target, change, source="another"),
        ledger_of(PromotionPlan(7, {"changes": []})),
    ):
        found = apply_plan.fitting(flow, it, target)
        assert ((), 1) == (found.plan.changes, len(found.outdated))


def test_quotas_fit_only_if_the_flow_could_bring_them(flow):
    """If they are synced, and nobody else set the one that is there."""
    target = FakeCluster("B")
    entity = QuotaEntity.of({"user": "jo"})
    target.quotas = {entity: {"consumer_byte_rate": 5.0}}
    new = QuotaChange(entity, "producer_byte_rate", None, 1.0)
    foreign = QuotaChange(entity, "consumer_byte_rate", 5.0, 1.0)
    syncs = replace(flow, metadata=replace(flow.metadata, quotas=True))
    ledger = kept(flow, target, new, foreign)
    assert (new,) == apply_plan.fitting(syncs, ledger, target).plan.changes
    assert () == apply_plan.fitting(flow, ledger, target).plan.changes

"""A plan kept in the ledger is a memory: what the flow would not do itself is not done by it."""

from __future__ import annotations

from dataclasses import replace

from fake_cluster import FakeCluster

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.config.flow.metadata import Profile
from twinlog.formats.ledger.recovery import PromotionPlan
from twinlog.metadata import promotion
from twinlog.metadata.plan_file import plan_document
from twinlog.metadata.values import AclChange, ConfigChange, MetadataPlan

COPY = AclBinding("TOPIC", "LITERAL", "A.orders", "User:jo", "*", "WRITE", "ALLOW")
PAYROLL = replace(COPY, name="payroll", principal="User:mallory", operation="ALL")


def kept(of, there: FakeCluster, *changes: object, **other: str) -> PromotionPlan:
    """A plan with a digest that fits."""
    plan = MetadataPlan(flow=other.get("flow", of.name), profile=Profile.PROMOTED, changes=changes)
    return PromotionPlan(7, plan_document(plan, "cluster-A", other.get("target", there.cluster_id()), 7))


def test_only_changes_that_the_flow_makes_fit(flow):
    """A forged grant, or a config, for a topic of the target is left out by name."""
    target = FakeCluster("B")
    for name in ("A.orders", "payroll"):
        target.add_topic(name)
    config = ConfigChange("payroll", "retention.ms", None, "1")
    found = promotion.fitting(
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
        PromotionPlan(7, {"changes": []}),
    ):
        found = promotion.fitting(flow, it, target)
        assert ((), 1) == (found.plan.changes, len(found.outdated))

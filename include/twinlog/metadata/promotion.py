"""Keep the plan of profile `promoted` in the ledger, so that it is there when the source is not.

A cycle makes it anew when it is older than `sync.topic.acls.interval.seconds`.  A plan that was kept is applied item by
item: what no longer fits the target is left out and named.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.checks.risk import seconds_since
from twinlog.cluster.admin.access_values import QuotaEntity, ScramCredential
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError, UsageError
from twinlog.formats.ledger.recovery import PromotionPlan
from twinlog.metadata import sync
from twinlog.metadata.acl_plan import AclScope
from twinlog.metadata.apply_plan import outdated, read_touched, with_profile
from twinlog.metadata.plan_file import parse_plan, plan_document
from twinlog.metadata.values import (
    AclChange,
    ConfigChange,
    MetadataChange,
    MetadataPlan,
    QuotaChange,
    ScramChange,
)
from twinlog.state.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Fitting:
    """The part of a kept plan that still fits, and why the rest does not."""

    plan: MetadataPlan
    outdated: tuple[str, ...] = ()


def plan_to_keep(flow: FlowSettings, clusters: Clusters, ledger: Ledger) -> PromotionPlan | None:
    """Make the plan anew if the kept one is too old; None if it is not, or if it cannot be made now.

    Raises ClusterUnreachable.
    """
    now, kept = clock.now_ms(), ledger.promotion_plan
    age = None if kept is None else seconds_since(kept.at_ms, now)
    if age is not None and age < flow.sync_topic_acls_interval_seconds:
        return None
    if ledger.phase.out_of_service:
        return None
    try:
        plan = sync.make_plan(with_profile(flow, Profile.PROMOTED), clusters)
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return None
    slim = replace(plan, drift=(), left_out=())
    ids = clusters.source.cluster_id(), clusters.target.cluster_id()
    return PromotionPlan(now, plan_document(slim, *ids, now))


def fitting(flow: FlowSettings, ledger: Ledger, target: ClusterReader) -> Fitting:
    """Compare the kept plan, if any, with the present target, and with what the flow may change there.

    Others may write to the ledger, so of a plan that is none, or another flow's, nothing fits.  Raises errors of the
    target.
    """
    nothing, kept = MetadataPlan(flow=flow.name, profile=Profile.PROMOTED), ledger.promotion_plan
    if kept is None:
        return Fitting(nothing)
    try:
        saved = parse_plan(json.dumps(kept.document), "the plan kept in the ledger")
    except UsageError as error:
        return Fitting(nothing, (error.message,))
    if (saved.flow, saved.target_cluster_id) != (flow.name, target.cluster_id()):
        strange = f"the plan kept in the ledger is of {saved.flow} for cluster {saved.target_cluster_id}"
        return Fitting(nothing, (strange,))
    if ledger.source_ids and saved.source_cluster_id not in ledger.source_ids:
        strange = (
            f"the plan kept in the ledger is of source {saved.source_cluster_id}, not of {flow.source.alias}"
        )
        return Fitting(nothing, (strange,))
    scope = AclScope(flow, ())
    touched = read_touched(saved.changes, target)
    reasons: list[str] = []
    fits = []
    for change in saved.changes:
        why = next(outdated([change], touched, None), "") or _beyond(scope, ledger, change)
        if why:
            reasons.append(why)
        elif not (isinstance(change, AclChange) and change.add and change.binding in touched.acls):
            fits.append(change)
    return Fitting(replace(nothing, changes=tuple(fits)), tuple(reasons))


def _beyond(scope: AclScope, ledger: Ledger, change: MetadataChange) -> str:
    """Say why a change is not one that the flow makes, "" if it is."""
    settings = scope.flow.metadata
    match change:
        case AclChange():
            ours = scope.could_make(change.binding)
        case ConfigChange():
            ours = scope.is_copy(change.topic)
        case QuotaChange():
            set_by_us = {QuotaEntity.of(it.entity): it.quotas for it in ledger.metadata.quotas}
            once = set_by_us.get(change.entity, {}).get(change.key)
            ours = settings.quotas and change.before in {None, once}
        case ScramChange():
            wanted = change.user, change.credential
            ours = any(
                wanted == (it.name, ScramCredential(it.mechanism, it.iterations))
                for it in settings.scram_users
            )
    return "" if ours else f"{change.row.label}: the kept plan names it, and this flow makes no such change"

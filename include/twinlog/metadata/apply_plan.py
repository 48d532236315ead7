"""Apply a saved metadata plan: only on its own clusters, only if nothing has drifted since, and only once.

Each change is compared with the present target.  Pure but for `read_touched` and `run`.

The plan of profile `promoted` is saved in the ledger, so that it is there when the source is not.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.clock import seconds_since
from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity, Quotas
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import Configs, ConfigSource
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TerminalError, TwinlogError, UsageError
from twinlog.formats.ledger.metadata import PlanApplied
from twinlog.formats.ledger.recovery import PromotionPlan
from twinlog.metadata import sync
from twinlog.metadata.acl_plan import AclScope
from twinlog.metadata.plan_file import SavedPlan, parse_plan, plan_document
from twinlog.metadata.sync import MetadataResult
from twinlog.metadata.values import (
    AclChange,
    ConfigChange,
    MetadataChange,
    MetadataPlan,
    QuotaChange,
    quota_text,
)
from twinlog.state.ledger import Ledger, read_ledger, write_ledger
from twinlog.visible import and_more


@dataclass(frozen=True, slots=True)
class Touched:
    """The present state on the target of all that a plan touches."""

    configs: Mapping[str, Configs]
    acls: frozenset[AclBinding]
    quotas: Quotas


def read_touched(changes: Collection[MetadataChange], target: ClusterReader) -> Touched:
    """Read what the changes touch.  Raises what a cluster raises: if in doubt, nothing is applied."""
    topics = {change.topic for change in changes if isinstance(change, ConfigChange)}
    return Touched(
        target.topic_configs(sorted(topics)).found,
        frozenset(target.describe_acls()) if _has(changes, AclChange) else frozenset(),
        target.describe_quotas() if _has(changes, QuotaChange) else {},
    )


def outdated(
    changes: Iterable[MetadataChange], now: Touched, fresh: Collection[MetadataChange] | None
) -> Iterator[str]:
    """Name each change that no longer fits, and why.

    A change fits if the target is as it was and a `fresh` plan still asks for it, or if it was made meanwhile.
    `fresh` is None if the source is gone; then only the target is compared.
    """
    for change in changes:
        there = state_of(change, now)
        row = change.row
        if there == row.after:
            continue
        if there != row.before:
            yield f"{row.label} is {there or 'not set'} by now, not {row.before or 'unset'}"
        elif fresh is not None and change not in fresh:
            yield f"{row.label} would not be {row.action} to {row.after} any more"


def state_of(change: MetadataChange, now: Touched) -> str | None:
    """Return the target's present value where the change would be made, as its row writes it."""
    match change:
        case ConfigChange():
            entry = now.configs.get(change.topic, {}).get(change.config)
            return entry.value if entry is not None and entry.source is ConfigSource.TOPIC else None
        case AclChange():
            return change.binding.permission if change.binding in now.acls else None
        case QuotaChange():
            return quota_text(now.quotas.get(change.entity, {}).get(change.key))


def _has(changes: Iterable[MetadataChange], kind: type) -> bool:
    return any(isinstance(change, kind) for change in changes)


SHOWN = 3


def with_profile(flow: FlowSettings, profile: Profile) -> FlowSettings:
    """Return the flow with a profile other than its file's."""
    return replace(flow, metadata=replace(flow.metadata, profile=profile))


def run(flow: FlowSettings, clusters: Clusters, saved: SavedPlan) -> MetadataResult:
    """Check a saved plan against both clusters, and apply it.

    A plan of profile `promoted` may be applied while the source is gone: it was approved for that case.  Raises
    UsageError for another flow's plan; TerminalError `plan-cluster` for other clusters, `plan-applied` for
    the second time, `plan-drifted` if the state has changed since; ClusterUnreachable, ClusterRefused.
    """
    flow = with_profile(flow, saved.profile)
    _require_same_place(flow, clusters, saved)
    fresh, notes = _plan_again(flow, clusters, saved)
    touched = read_touched(saved.changes, clusters.target)
    reasons = list(outdated(saved.changes, touched, fresh))
    if reasons:
        raise TerminalError(
            f"the plan no longer fits: {'; '.join(reasons[:SHOWN])}{and_more(len(reasons), SHOWN)}",
            hint="make a new plan and have it approved",
            code="plan-drifted",
            flow=flow.name,
            reasons=reasons,
        )
    # An ACL that other people made meanwhile stays theirs: one that is remembered as ours is revoked some day.
    todo = tuple(
        change
        for change in saved.changes
        if not (isinstance(change, AclChange) and change.add and change.binding in touched.acls)
    )
    plan = MetadataPlan(todo, notes=notes, flow=flow.name, profile=saved.profile)
    result = sync.apply(flow, plan, clusters.target)
    if result.complete:
        now = clock.now_ms()
        applied = PlanApplied(saved.digest, saved.profile.value, len(result.applied), now)
        write_ledger(flow, clusters.target, [applied])
    return result


def _require_same_place(flow: FlowSettings, clusters: Clusters, saved: SavedPlan) -> None:
    if saved.flow != flow.name:
        raise UsageError(
            f"the plan is for flow {saved.flow}, not {flow.name}",
            hint=f"apply it with --flow {shlex.quote(saved.flow)}",
            flow=flow.name,
        )
    found = clusters.target.cluster_id()
    if found != saved.target_cluster_id:
        raise TerminalError(
            f"the plan is for cluster {saved.target_cluster_id}; {flow.target.alias} is {found}",
            hint="make a new plan for this cluster",
            code="plan-cluster",
            flow=flow.name,
        )
    applied = read_ledger(flow, clusters.target).metadata.applied.get(saved.digest)
    if applied is not None:
        raise TerminalError(
            f"the plan was applied already, on {clock.iso(applied.at_ms)}",
            hint="make a new plan",
            code="plan-applied",
            flow=flow.name,
        )


def _plan_again(
    flow: FlowSettings, clusters: Clusters, saved: SavedPlan
) -> tuple[Collection[MetadataChange] | None, tuple[str, ...]]:
    try:
        if clusters.source.cluster_id() != saved.source_cluster_id:
            raise TerminalError(
                f"the plan is for another source than the cluster that {flow.source.alias} is now",
                hint="make a new plan",
                code="plan-cluster",
                flow=flow.name,
            )
        return frozenset(sync.make_plan(flow, clusters).changes), ()
    except ClusterUnreachable as error:
        if saved.profile is not Profile.PROMOTED or error.cluster != flow.source.alias:
            raise
        return None, (f"{flow.source.alias} does not answer: applied as approved",)


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

    Others may write to the ledger: if the kept plan cannot be read, or is another flow's, nothing of it fits.  Raises
    errors of the target.
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
            set_by_us = {QuotaEntity.of(quota.entity): quota.quotas for quota in ledger.metadata.quotas}
            once = set_by_us.get(change.entity, {}).get(change.key)
            ours = settings.quotas and change.before in {None, once}
    return "" if ours else f"{change.row.label}: the kept plan names it, and this flow makes no such change"

"""Step `sync_metadata`: bring topic configs, ACLs and quotas of the source to the target.

`make_plan` reads both sides and lists changes.  `apply` makes exactly those, item by item, and remembers in the ledger
what twinlog gave, so that it can later take back exactly that.  A refused change does not stop the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from twinlog import clock
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.api import Cluster, Clusters
from twinlog.cluster.values import Answers
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, TerminalError, TwinlogError, UsageError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.jsonable import Json, to_json
from twinlog.metadata.memory import after, intended_acls
from twinlog.metadata.read import Sides, plan_parts, read_sides
from twinlog.metadata.subjects import Subject
from twinlog.metadata.values import (
    AclChange,
    ConfigChange,
    Drift,
    MetadataChange,
    MetadataPlan,
    QuotaChange,
    change_document,
    join,
)
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, read_ledger, require_ledger
from twinlog.topics.plan import Refusal
from twinlog.topics.snapshot import copied_names


@dataclass(frozen=True, slots=True)
class MetadataResult:
    """The changes made on the target, those it refused item by item, and the differences that stay."""

    flow: str
    profile: Profile
    applied: tuple[MetadataChange, ...]
    refused: tuple[Refusal, ...]
    drift: tuple[Drift, ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Say whether nothing was refused."""
        return not self.refused

    @property
    def document(self) -> Json:
        """Return the result as JSON."""
        return {
            "flow": self.flow,
            "profile": self.profile.value,
            "complete": self.complete,
            "applied": [change_document(change) for change in self.applied],
            "refused": to_json(self.refused),
            "drift": to_json(self.drift),
            "notes": list(self.notes),
        }


def run(
    flow: FlowSettings,
    clusters: Clusters,
    subjects: frozenset[Subject] | None = None,
    topics: frozenset[str] | None = None,
) -> MetadataResult:
    """Plan and apply at once.  Raises what `make_plan` and `apply` raise."""
    return apply(flow, make_plan(flow, clusters, subjects, topics=topics), clusters.target)


def make_plan(
    flow: FlowSettings,
    clusters: Clusters,
    subjects: frozenset[Subject] | None = None,
    ledger: Ledger | None = None,
    topics: frozenset[str] | None = None,
) -> MetadataPlan:
    """List what would change on the target, by `ledger` or the one of now.  Changes nothing.

    `subjects` None means all that the flow syncs.  With `topics` it is the configs of their copies alone: a user's
    rights may come from several topics and patterns together.

    Raises ClusterUnreachable, TerminalError `promoted` if the flow was failed over and the profile would take back
    what producers need, and UsageError for a topic that the flow does not copy, or if it syncs no configs.
    """
    now = ledger or read_ledger(flow, clusters.target)
    if topics is None:
        return plan_by(flow, now, lambda it: read_sides(it, clusters, now, subjects))
    if not flow.sync_topic_configs:
        raise UsageError("--topic: sync.topic.configs.enabled is false: no config of a topic is compared")
    if unknown := topics.difference(copied_names(flow, clusters.source)):
        raise UsageError(
            f"--topic: {flow.name} replicates no topic {min(unknown)}",
            hint="`twinlog topics offsets` lists them",
        )
    plan = plan_by(flow, now, lambda it: read_sides(it, clusters, now, frozenset({Subject.CONFIGS})))
    copies = {flow.remote_name(topic) for topic in topics}
    labels = {f"topic {copy}" for copy in copies}
    return replace(
        plan,
        changes=_of_topics(plan.changes, copies),
        agreed=_of_topics(plan.agreed, copies),
        drift=tuple(it for it in plan.drift if it.resource in labels),
        notes=(*plan.notes, "only configs of the topics named were compared: no ACL, no quota"),
    )


def _of_topics(changes: Iterable[MetadataChange], copies: Collection[str]) -> tuple[MetadataChange, ...]:
    return tuple(it for it in changes if isinstance(it, ConfigChange) and it.topic in copies)


def plan_by(flow: FlowSettings, ledger: Ledger, read: Callable[[FlowSettings], Sides]) -> MetadataPlan:
    """List what would change by what `read` returns for the flow.  Raises as `make_plan` does."""
    _respect_phase(flow, ledger)
    return join(flow.name, flow.metadata.profile, plan_parts(flow, read(flow), ledger.metadata))


def apply(flow: FlowSettings, plan: MetadataPlan, target: Cluster) -> MetadataResult:
    """Make the changes of a plan, and remember them.

    Refused changes are reported item by item.  Raises ClusterUnreachable, and TerminalError `no-ledger` if the target
    has no ledger to remember them in.
    """
    if flow.metadata.profile is not Profile.PROMOTED:  # of a failover
        flow.require_copied("a sync of metadata")
    if plan.changes or plan.agreed:
        require_ledger(flow, target)
    now = clock.now_ms()
    if plan.changes:
        change(flow, target, lambda it: Entries(intended_acls(it.metadata, plan.changes, now)))
    done, refused = make_changes(flow, plan.changes, target)

    change(
        flow,
        target,
        lambda it: Entries([*after(it.metadata, (*plan.changes, *plan.agreed), {*done, *plan.agreed}, now)]),
    )
    return MetadataResult(flow.name, plan.profile, done, (*plan.refused, *refused), plan.drift, plan.notes)


def _respect_phase(flow: FlowSettings, ledger: Ledger) -> None:
    ours = flow.recovery_run and ledger.copies_for(
        flow.recovery_run
    )  # a failover asks what is pending, before its promotion
    if ledger.phase.out_of_service and not ours and flow.metadata.profile is not Profile.PROMOTED:
        raise TerminalError(
            f"{flow.name} is {ledger.phase.value}: profile {flow.metadata.profile.value} would take rights from"
            f" those who now work on {flow.target.alias}",
            hint=f"`twinlog recovery abort --flow '{flow.name}' --reason ...` first, and begin again once it is applied"
            if ledger.phase is FlowPhase.FAILING_OVER
            else f"`twinlog metadata apply --flow '{flow.name}' --profile promoted`",
            code="promoted",
            flow=flow.name,
        )


def make_changes(
    flow: FlowSettings, changes: Sequence[MetadataChange], target: Cluster
) -> tuple[tuple[MetadataChange, ...], tuple[Refusal, ...]]:
    """Make changes in an order in which no DENY is ever missing and no user lacks a right in between.

    New DENYs come first, then new ALLOWs (none, if a DENY was refused), then stale ALLOWs go, and stale DENYs last.
    Return the changes that were made, and the refusals of the others.  Raises ClusterUnreachable if the target stops
    answering; repeating all of it is safe.
    """
    acls = [it for it in changes if isinstance(it, AclChange)]
    errors: dict[MetadataChange, TwinlogError] = {}
    denials = _ask([acl for acl in acls if acl.add and _denies(acl)], target.create_acls)
    grants = [acl for acl in acls if acl.add and not _denies(acl)]
    errors |= denials
    held_back = ClusterRefused("held back: a DENY that belongs before it was refused", code="held-back")
    errors |= dict.fromkeys(grants, held_back) if denials else _ask(grants, target.create_acls)
    errors |= _ask([acl for acl in acls if not acl.add and not _denies(acl)], target.delete_acls)
    errors |= _ask([acl for acl in acls if not acl.add and _denies(acl)], target.delete_acls)
    configs = {(it.topic, it.config): it for it in changes if isinstance(it, ConfigChange)}
    quotas = {(it.entity, it.key): it for it in changes if isinstance(it, QuotaChange)}
    errors |= _set(configs, target.alter_topic_configs)
    errors |= _set(quotas, target.alter_quotas)
    return (
        tuple(change for change in changes if change not in errors),
        tuple(Refusal.of(change.row.label, errors[change]) for change in changes if change in errors),
    )


Errors = Mapping[MetadataChange, TwinlogError]
Owner = TypeVar("Owner")
Setting = TypeVar("Setting", ConfigChange, QuotaChange)


def _denies(change: AclChange) -> bool:
    return change.binding.permission == "DENY"


def _ask(
    changes: Sequence[AclChange], ask: Callable[[Iterable[AclBinding]], Answers[AclBinding, None]]
) -> Errors:
    if not changes:
        return {}
    by_binding = {acl_change.binding: acl_change for acl_change in changes}
    answers = ask(by_binding)
    return {by_binding[binding]: error for binding, error in answers.refused.items()}


def _set(
    changes: Mapping[tuple[Owner, str], Setting],
    ask: Callable[[Mapping[Owner, Json]], Answers[tuple[Owner, str], None]],
) -> Errors:
    if not changes:
        return {}
    wanted: dict[Owner, dict[str, Any]] = {}
    for (owner, name), it in changes.items():
        wanted.setdefault(owner, {})[name] = it.after
    return {changes[item]: error for item, error in ask(wanted).refused.items()}

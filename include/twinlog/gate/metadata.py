"""Read what the gate knows beside the records: pending metadata changes, and schemas that differ in the copy.

Confluent's and Karapace's registries keep each subject, version and id as the latest record of a key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.permissions.needs import state_writers
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.fact import Unknown
from twinlog.formats.ledger.records import FlowPhase
from twinlog.judge.check import Row
from twinlog.metadata import sync
from twinlog.metadata.apply_plan import with_profile
from twinlog.metadata.read import Sides
from twinlog.metadata.values import AclChange, ChangeKind, MetadataChange, MetadataPlan
from twinlog.schemas import sync as schemas
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import Discovery

NOT_COMPARED = Unknown("it could not be compared")


COLUMNS = {
    "pending_acls": ChangeKind.ACL,
    "pending_quotas": ChangeKind.QUOTA,
    "drifting_configs": ChangeKind.TOPIC_CONFIG,
}
"""The columns that checks look at: changes that are pending on the target, by kind."""


def read(flow: FlowSettings, ledger: Ledger, both: Callable[[FlowSettings], Sides]) -> Row:
    """Plan the metadata sync by this ledger and `both` sides, and count its changes; if it fails, nothing is known.

    A failover that goes on may have given producers their rights already: those are not pending.  Once it is promoted,
    the profile `promoted` holds.  Raises ClusterUnreachable.
    """
    if ledger.phase in {FlowPhase.PROMOTED, FlowPhase.FAILING_BACK}:
        flow = with_profile(flow, Profile.PROMOTED)
    try:
        plan = sync.plan_by(flow, ledger, both)
        if not flow.recovery_run:
            return facts_of(plan)
        promoted = sync.plan_by(with_profile(flow, Profile.PROMOTED), ledger, both)
        return facts_of(replace(plan, changes=apart_from(plan.changes, promoted.changes)))
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return dict.fromkeys((*COLUMNS, "metadata_unknown"), NOT_COMPARED)


def other_writers(flow: FlowSettings, target: ClusterReader) -> tuple[str, ...] | Unknown | None:
    """Name who else may write to the flow's state; None if the target keeps no ACLs.  Raises ClusterUnreachable."""
    try:
        return state_writers(flow, target.describe_acls())
    except ClusterUnreachable:
        raise
    except TwinlogError as error:
        return None if error.code == "no-authorizer" else Unknown(error.message)


def apart_from(
    changes: Iterable[MetadataChange], promoted: Collection[MetadataChange]
) -> tuple[MetadataChange, ...]:
    """Leave out ACLs that the flow's own profile would take away, and profile `promoted` would not.  Pure."""
    return tuple(
        change for change in changes if not isinstance(change, AclChange) or change.add or change in promoted
    )


def facts_of(plan: MetadataPlan) -> Row:
    """Count the changes in a plan, the config differences that it leaves, and what could not be compared.  Pure.

    If nothing was found, but not everything could be read, nothing is known.
    """
    pending = Counter(change.row.kind for change in plan.changes)
    pending[ChangeKind.TOPIC_CONFIG] += sum(
        drift.kind in {ChangeKind.TOPIC_CONFIG, ChangeKind.REPLICATION_FACTOR} for drift in plan.drift
    )
    return {
        **{
            column: pending[kind] or (NOT_COMPARED if kind in plan.unknown else 0)
            for column, kind in COLUMNS.items()
        },
        "metadata_unknown": len(plan.refused),
    }


def differing_schemas(flow: FlowSettings, clusters: Clusters, discovery: Discovery) -> tuple[str, ...] | None:
    """Name what of the source's schemas differs on the target; None if the flow copies none.

    Compared is what the flow copies: the registry's topic, subjects by the registries' API, or both.  What cannot be
    asked counts as a difference, because nothing is known of it.  Raises ClusterUnreachable if a cluster is.
    """
    by_topic, by_api = _by_topic(flow, clusters, discovery), _by_api(flow, clusters)
    return None if by_topic is None and by_api is None else (*(by_topic or ()), *(by_api or ()))


def _by_topic(flow: FlowSettings, clusters: Clusters, discovery: Discovery) -> tuple[str, ...] | None:
    topic = discovery.named(flow.gate.schemas_topic)
    if topic is None or topic.remote is None:
        return None
    try:
        ours, theirs = clusters.source.latest(topic.topic), clusters.target.latest(topic.remote_topic)
    except ClusterUnreachable:
        raise
    except TwinlogError as error:
        return (f"{topic.topic} cannot be compared: {error.message}",)
    different = sum(theirs.get(key) != value for key, value in ours.items())
    return (f"{different:,} records of {topic.topic}",) * bool(different)


def _by_api(flow: FlowSettings, clusters: Clusters) -> tuple[str, ...] | None:
    if not flow.metadata.schemas.copied:
        return None
    try:
        return schemas.look(flow, clusters).differences
    except TwinlogError as error:  # a registry is no cluster: the gate goes on, and says no
        return (error.message,)

"""Read what the metadata sync plans from, on both clusters.  A refused part does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from twinlog.cluster.admin.access_values import AclBinding, Quotas
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.recovery import DeniedWrite
from twinlog.metadata.acl_plan import AclState
from twinlog.metadata.config_plan import TopicConfigState
from twinlog.metadata.memory import another_source, copied_incarnations
from twinlog.metadata.scram_plan import Users
from twinlog.metadata.subjects import Subject
from twinlog.metadata.values import ChangeKind
from twinlog.state.ledger import Ledger, why_not_own
from twinlog.topics.discovery import remote_name
from twinlog.topics.plan import Refusal
from twinlog.topics.snapshot import copied_names

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QuotaState:
    """The client quotas of both clusters."""

    source: Quotas
    target: Quotas


@dataclass(frozen=True, slots=True)
class ScramState:
    """The SCRAM users of both clusters; the source's are None if it does not tell."""

    source: Users | None
    target: Users


@dataclass(frozen=True, slots=True)
class MetadataState:
    """The state of both clusters; a part is None if it was not asked for or could not be read.

    For kinds that are `unknown`, the changes are unknown: a cluster refused to tell.
    """

    configs: TopicConfigState | None = None
    acls: AclState | None = None
    quotas: QuotaState | None = None
    scram: ScramState | None = None
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[ChangeKind, ...] = ()


def read_state(
    flow: FlowSettings, clusters: Clusters, subjects: frozenset[Subject], ledger: Ledger
) -> MetadataState:
    """Read what the subjects need, of the cluster and the topic incarnations that are copied.

    Raises ClusterUnreachable if a cluster does not answer at all.
    """
    source_id = clusters.source.cluster_id()
    refusal = why_not_own(flow, ledger, source_id, clusters.target.cluster_id())
    strange = (
        another_source(flow, ledger, source_id)
        if refusal is None
        else Refusal.of(f"settings of {flow.source.alias}", refusal)
    )
    if strange is not None:
        return MetadataState(refused=(strange,), unknown=tuple(ChangeKind))
    asking = _Asking()
    topics = copied_names(flow, clusters.source) if subjects & {Subject.CONFIGS, Subject.ACLS} else ()
    return MetadataState(
        configs=_configs(flow, clusters, topics, ledger, asking) if Subject.CONFIGS in subjects else None,
        acls=_acls(clusters, topics, ledger, asking) if Subject.ACLS in subjects else None,
        quotas=_quotas(clusters, asking) if Subject.QUOTAS in subjects else None,
        scram=_scram(clusters, asking) if Subject.SCRAM in subjects else None,
        refused=tuple(asking.refused),
        notes=tuple(asking.notes),
        unknown=tuple(asking.unknown),
    )


class _Asking:
    """Asks one question at a time and keeps the refusals."""

    def __init__(self) -> None:
        self.refused: list[Refusal] = []
        self.notes: list[str] = []
        self.unknown: list[ChangeKind] = []

    def ask(self, what: str, question: Callable[[], T], kind: ChangeKind | None) -> T | None:
        """Return the answer; None if it is refused, or if the cluster has no ACLs because it has no authorizer.

        After a refusal, changes of that `kind` are unknown; `kind` is None if none depend on the answer.
        """
        try:
            return question()
        except ClusterRefused as error:
            if error.code == "no-authorizer":
                self.notes.append(f"{error.message}, so no ACLs are synced")
            else:
                self.refused.append(Refusal.of(what, error))
                self.unknown += [kind] if kind is not None else []
            return None


def _configs(
    flow: FlowSettings, clusters: Clusters, topics: tuple[str, ...], ledger: Ledger, asking: _Asking
) -> TopicConfigState:
    remote = {topic: remote_name(flow, topic) for topic in topics}
    there = clusters.target.describe_topics(remote.values()).found
    remote = {topic: name for topic, name in remote.items() if name in there}
    source, target = clusters.source.topic_configs(remote), clusters.target.topic_configs(remote.values())
    # Ids are read after configs: a topic recreated in between shows that the configs may be another incarnation's.
    lives = clusters.source.describe_topics(remote).found
    described = clusters.target.describe_topics(remote.values()).found
    copied = {topic: described[name] for topic, name in remote.items() if name in described}
    copies, refused = copied_incarnations(flow, ledger, lives, copied)
    asking.refused += refused
    asking.unknown += [ChangeKind.TOPIC_CONFIG] if refused else []
    return TopicConfigState(copies, source, target, clusters.target.broker_count())


def _acls(clusters: Clusters, topics: tuple[str, ...], ledger: Ledger, asking: _Asking) -> AclState | None:
    """Read the ACLs of both sides; those with which a failover keeps producers off the source stay there."""
    source, target = (
        asking.ask(f"ACLs of {it.alias}", it.describe_acls, ChangeKind.ACL)
        for it in (clusters.source, clusters.target)
    )
    if source is None or target is None:
        return None
    ours = {acl for run in ledger.recoveries for it in run.denied for acl in (denial(it), *rest_kept([it]))}
    names = clusters.target.topic_names()
    return AclState(tuple(it for it in source if it not in ours), target, topics, tuple(names))


def denial(it: DeniedWrite) -> AclBinding:
    """Return the ACL by which a failover keeps a principal from writing to a topic of the source."""
    return AclBinding("TOPIC", "LITERAL", it.topic, it.principal, it.host, "WRITE", "DENY")


def rest_kept(denied: Iterable[DeniedWrite]) -> set[AclBinding]:
    """Return the ACLs without which some of these denials would forbid more than WRITE."""
    return {replace(denial(it), operation="ALL", permission="ALLOW") for it in denied if it.keeps_rest}


def _quotas(clusters: Clusters, asking: _Asking) -> QuotaState | None:
    source, target = (
        asking.ask(f"quotas of {it.alias}", it.describe_quotas, ChangeKind.QUOTA)
        for it in (clusters.source, clusters.target)
    )
    return None if source is None or target is None else QuotaState(source, target)


def _scram(clusters: Clusters, asking: _Asking) -> ScramState | None:
    # The target alone tells whether declared users exist.
    source = asking.ask(f"SCRAM users of {clusters.source.alias}", clusters.source.describe_scram_users, None)
    target = asking.ask(
        f"SCRAM users of {clusters.target.alias}", clusters.target.describe_scram_users, ChangeKind.SCRAM_USER
    )
    return None if target is None else ScramState(source, target)

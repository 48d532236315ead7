"""Read both clusters for the metadata sync, and plan part by part.  A refused part does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from twinlog.cluster.admin.access_values import AclBinding, Quotas
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.recovery import DeniedWrite
from twinlog.metadata.acl_plan import AclState, plan_acls
from twinlog.metadata.config_plan import TopicConfigState, plan_topic_configs
from twinlog.metadata.memory import another_source, copied_incarnations
from twinlog.metadata.quota_plan import plan_quotas
from twinlog.metadata.subjects import Subject, subjects_of
from twinlog.metadata.values import ChangeKind, Part
from twinlog.state.ledger import Ledger, MetadataMemory, why_not_own
from twinlog.topics.plan import Refusal
from twinlog.topics.snapshot import copied_names

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sides:
    """Holds each subject as both clusters have it; None if nobody asked or told it, and `rest` may say why."""

    rest: Part
    configs: TopicConfigState | None = None
    acls: AclState | None = None
    quotas: tuple[Quotas, Quotas] | None = None


def plan_parts(flow: FlowSettings, seen: Sides, memory: MetadataMemory) -> Iterator[Part]:
    """Plan each subject.  Pure."""
    if seen.configs is not None:
        yield plan_topic_configs(flow, seen.configs, memory.configs)
    if seen.acls is not None:
        yield plan_acls(flow, seen.acls, memory.acls)
    if seen.quotas is not None:
        yield plan_quotas(flow, *seen.quotas, memory.quotas)
    yield seen.rest


def read_sides(
    flow: FlowSettings, clusters: Clusters, ledger: Ledger, subjects: frozenset[Subject] | None = None
) -> Sides:
    """Read what the subjects need, of the cluster and the topic incarnations that are copied; None: all of the flow's.

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
        return Sides(Part(refused=(strange,), unknown=tuple(ChangeKind)))
    asking, chosen = _Asking(clusters), subjects_of(flow)
    chosen = chosen if subjects is None else chosen & subjects
    topics = copied_names(flow, clusters.source) if chosen & {Subject.CONFIGS, Subject.ACLS} else ()
    configs = _configs(flow, clusters, topics, ledger, asking) if Subject.CONFIGS in chosen else None
    acls = _acls(clusters, topics, ledger, asking) if Subject.ACLS in chosen else None
    quotas = (
        asking.both("quotas", lambda it: it.describe_quotas(), ChangeKind.QUOTA)
        if Subject.QUOTAS in chosen
        else None
    )
    rest = Part(refused=tuple(asking.refused), notes=tuple(asking.notes), unknown=tuple(asking.unknown))
    return Sides(rest, configs, acls, quotas)


class _Asking:
    """Asks one question at a time and keeps the refusals."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters
        self.refused: list[Refusal] = []
        self.notes: list[str] = []
        self.unknown: list[ChangeKind] = []

    def ask(
        self,
        what: str,
        cluster: ClusterReader,
        question: Callable[[ClusterReader], T],
        kind: ChangeKind | None,
    ) -> T | None:
        """Return the answer; None if it is refused, or if the cluster has no ACLs because it has no authorizer.

        After a refusal, changes of that `kind` are unknown; `kind` is None if none depend on the answer.
        """
        try:
            return question(cluster)
        except ClusterRefused as error:
            if error.code == "no-authorizer":
                self.notes.append(f"{error.message}, so no ACLs are synced")
            else:
                self.refused.append(Refusal.of(f"{what} of {cluster.alias}", error))
                self.unknown += [kind] if kind is not None else []
            return None

    def both(self, what: str, question: Callable[[ClusterReader], T], kind: ChangeKind) -> tuple[T, T] | None:
        """Return the answers of source and target; None if one of them is missing."""
        source = self.ask(what, self._clusters.source, question, kind)
        target = self.ask(what, self._clusters.target, question, kind)
        return None if source is None or target is None else (source, target)


def _configs(
    flow: FlowSettings, clusters: Clusters, topics: tuple[str, ...], ledger: Ledger, asking: _Asking
) -> TopicConfigState:
    remote = {topic: flow.remote_name(topic) for topic in topics}
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
    found = asking.both("ACLs", lambda it: it.describe_acls(), ChangeKind.ACL)
    if found is None:
        return None
    source, target = found
    ours = {
        acl
        for run in ledger.recoveries
        for denied in run.denied
        for acl in (denial(denied), *rest_kept([denied]))
    }
    names = clusters.target.topic_names()
    return AclState(tuple(binding for binding in source if binding not in ours), target, topics, tuple(names))


def denial(it: DeniedWrite) -> AclBinding:
    """Return the ACL by which a failover keeps a principal from writing to a topic of the source."""
    return AclBinding("TOPIC", "LITERAL", it.topic, it.principal, it.host, "WRITE", "DENY")


def rest_kept(denied: Iterable[DeniedWrite]) -> set[AclBinding]:
    """Return the ACLs without which some of these denials would forbid more than WRITE."""
    return {
        replace(denial(write), operation="ALL", permission="ALLOW") for write in denied if write.keeps_rest
    }

"""Ask for the rights of a failback before anything is changed: a right that is missing is one line, not half a way.

The way home writes to A as any flow writes to its target, and commits there the position of every group.  Where the
failover denies WRITE on A, whether twinlog's user may write there cannot be asked before the denial is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from twinlog.cluster.api import Clusters
from twinlog.cluster.permissions.needs import (
    Finding,
    Kind,
    Names,
    Need,
    Resource,
    Rights,
    acl_lines,
    judge,
    needs,
    principal,
    tail_needs,
)
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.recovery import DeniedWrite
from twinlog.lane.fence.fence import transactional_prefix
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.groups import placing
from twinlog.visible import and_more


def to_save(flow: FlowSettings, topics: Collection[str], there: frozenset[str]) -> Iterator[Need]:
    """Yield what `twinlog failback --save` needs on the target, which has the topics `there`.  Pure."""
    wanted = needs(flow, Names((), (), there), transactional_prefix(flow.name))
    yield from (need for need in wanted if need.required)
    yield from tail_needs(flow, topics, there)


def to_go_home(
    back: FlowSettings,
    copies: Collection[str],
    groups: Collection[str],
    there: frozenset[str],
    denied: Collection[DeniedWrite],
) -> Iterator[Need]:
    """Yield what the flow that copies home needs on both clusters; its target has the topics `there`.  Pure.

    `denied` are the ACLs that the failover has made there.
    """
    target, shut = back.target.alias, {write.topic for write in denied}
    names = Names(tuple(copies), tuple(groups), there)
    for need in needs(placing(back), names, transactional_prefix(back.name)):
        seat = need.cluster == target and need.resource.kind is Kind.GROUP
        if need.required or seat:
            closed = (
                need.cluster == target and need.resource.kind is Kind.TOPIC and need.resource.name in shut
            )
            may = tuple(it for it in need.operations if not (closed and it == "WRITE"))
            yield replace(need, operations=may)
    if denied:
        yield Need(
            target, Resource(Kind.CLUSTER), ("ALTER",), "remove the denials of WRITE that the failover made"
        )


def require_to_save(flow: FlowSettings, clusters: Clusters, topics: Collection[str]) -> None:
    """Raise ClusterRefused `unauthorised` if a right is missing to export what the source alone has."""
    there = frozenset(clusters.target.topic_names())
    _require(flow, clusters, to_save(flow, topics, there), "a failback")


def require_to_go_home(back: Way, copies: Collection[str], denied: Collection[DeniedWrite]) -> None:
    """Raise ClusterRefused `unauthorised` if a right is missing to bring these copies, and all groups, home."""
    flow, clusters = back.flow, back.clusters
    groups = sorted(group.group for group in clusters.source.groups() if flow.follows_group(group.group))
    there = frozenset(clusters.target.topic_names())
    _require(flow, clusters, to_go_home(flow, copies, groups, there, denied), "the way home")


def _require(flow: FlowSettings, clusters: Clusters, needs: Iterable[Need], what: str) -> None:
    wanted = list(needs)
    asked = {need.cluster for need in wanted}
    rights: dict[tuple[str, Resource], Rights] = {}
    for cluster in (clusters.source, clusters.target):
        if cluster.alias in asked:
            rights |= cluster.rights(wanted)
    lacking = [finding for finding in judge(wanted, rights) if finding.missing]
    if lacking:
        raise _refusal(flow, lacking, what)


def _refusal(flow: FlowSettings, lacking: list[Finding], what: str) -> ClusterRefused:
    by_alias = {settings.alias: settings for settings in (flow.source, flow.target)}
    first = lacking[0].need
    name = f"{first.resource.kind.value} {first.resource.name}".strip()
    return ClusterRefused(
        f"{principal(by_alias[first.cluster])} may not {', '.join(lacking[0].missing)} {name} of {first.cluster}:"
        f" {what} needs that to {first.why}{and_more(len(lacking))}; nothing was changed",
        "; ".join(acl_lines(lacking, by_alias)),
        code="unauthorised",
        flow=flow.name,
        cluster=first.cluster,
    )

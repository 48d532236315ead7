"""Record, on a person's word, which flow owns the state on the target (docs/decisions/0022-identity.md).

A claim is needed for an alias that was renamed, and for a cluster that was restored or built anew under another id.
The claim is moved through the control lane of the flow that has it. A driver that copies under the old name is fenced
by that, and is refused when it comes again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend.state import take_fence
from twinlog.copying.ownership import end_upkeep
from twinlog.copying.rounds import state_topics
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import FlowClaim, written_as
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.fence import write_fenced
from twinlog.lane.fence.ownership import Identity, why_not_ours
from twinlog.protocol.brokers import Brokers
from twinlog.state.ledger import Ledger, ledger_from, records_in
from twinlog.topics.incarnations import differ
from twinlog.topics.reverse_flows import gone_reverse_flows


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The flow that owns the state now; `changed` says whether this call changed anything.

    `before` is the claim that counted until now, None if there was none. Topics copied from another cluster than the
    present source are in two lists. `kept` are the same topics by their ids, and are copied on. `others` stay stopped
    until they are rebuilt or excluded. `forgotten` are deleted ledgers of reverse flows: records written by those
    flows are no longer left out.
    """

    flow: str
    changed: bool
    claim: FlowClaim
    before: FlowClaim | None = None
    kept: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()


def run(flow: FlowSettings, clusters: Clusters, *, by: str, reason: str) -> ClaimResult:
    """Make this flow the owner of the state on the target, between the clusters that answer now.

    Raises UsageError without a reason, TerminalError `same-cluster`, `no-ledger` before the first cycle, FencedError
    if another driver took the old or the new flow meanwhile, and errors of the clusters.
    """
    if not reason.strip():
        raise UsageError("a claim needs a reason", hint='such as: --reason "B is called west now"')
    identity = Identity(flow.name, clusters.source.cluster_id(), clusters.target.cluster_id())
    _require_two(identity)
    records = records_in(clusters.target, flow.ledger_topic)
    if not records:
        raise TerminalError(
            f"flow {flow.name} has no ledger on {flow.target.alias} yet",
            hint=f"there is nothing to claim: twinlog run --once --flow '{flow.name}'",
            code="no-ledger",
            flow=flow.name,
        )
    owner = _owned_as(flow, records)
    # This call changes the owner. Ownership is therefore judged below, by the ledger read behind this fence.
    state = replace(state_topics(flow, clusters), source_cluster_id="", target_cluster_id="")
    with Brokers(flow.target.connection) as target:
        grant = take_fence(owner, target, state, run_id=f"claim-{uuid.uuid4().hex[:8]}", lanes=1)
        end_upkeep(owner, target)
        records = records_in(clusters.target, flow.ledger_topic)
        if _owned_as(flow, records).name != owner.name:
            raise TerminalError(
                f"somebody else claimed the state of {flow.name} just now",
                hint="`twinlog check` says who has it; claim it again if it is to be yours",
                code="another-name",
                flow=flow.name,
            )
        result, changes = _planned(flow, clusters, identity, ledger_from(records), by, reason)
        if changes:
            stored = [StateRecord(flow.ledger_topic, 0, key, value) for key, value in changes]
            write_fenced(target, grant.lanes[0], stored)
            end_upkeep(owner, target)  # fences a compaction that began meanwhile; a later one reads the claim
    return result


def _planned(
    flow: FlowSettings, clusters: Clusters, identity: Identity, ledger: Ledger, by: str, reason: str
) -> tuple[ClaimResult, list[tuple[bytes, bytes | None]]]:
    """Compute the result of the claim and the records it writes: keys, with values or None."""
    before = ledger.claims[0] if ledger.claims else None
    ours = before is not None and why_not_ours(identity, ledger.claims, (), ()) is None
    claim = before if before is not None and ours else identity.claim(clock.now_ms(), by, reason)
    kept, others = _incarnations(clusters, ledger, identity.source_cluster_id)
    forgotten = gone_reverse_flows(clusters, ledger.reverse_flows)
    moved = () if ours else [it for it in ledger.claims if it.flow != flow.name]
    changes = [
        *_tombstones([*moved, *forgotten]),
        *((it.key(), it.value()) for it in kept),
        *(() if ours else [(claim.key(), claim.value())]),
    ]
    result = ClaimResult(
        flow=flow.name,
        changed=bool(changes),
        claim=claim,
        before=before,
        kept=tuple(sorted(it.topic for it in kept)),
        others=others,
        forgotten=tuple(sorted({it.ledger_topic for it in forgotten})),
    )
    return result, changes


def _incarnations(
    clusters: Clusters, ledger: Ledger, source_cluster_id: str
) -> tuple[list[Incarnation], tuple[str, ...]]:
    """Sort topics copied from another cluster: those that are the same on this one, updated to it, and the others.

    Topic ids are random. A topic id that is found again belongs to the same topic, on a cluster that was restored.
    """
    elsewhere = {
        topic: life
        for topic, life in ledger.incarnations.items()
        if differ(life.source_cluster_id, source_cluster_id)
    }
    found = clusters.source.describe_topics(elsewhere).found if elsewhere else {}
    kept = [
        replace(life, source_cluster_id=source_cluster_id)
        for topic, life in elsewhere.items()
        if topic in found and life.topic_id and found[topic].topic_id == life.topic_id
    ]
    return kept, tuple(sorted(set(elsewhere) - {it.topic for it in kept}))


def _tombstones(records: list[LedgerEntry]) -> Iterator[tuple[bytes, None]]:
    return ((it.key(), None) for it in records)


def _owned_as(flow: FlowSettings, records: tuple[LedgerRecord, ...]) -> FlowSettings:
    """Return the flow under the owner's name, or under the name it was last written by if there is no claim."""
    claim = next((it for it in records if isinstance(it, FlowClaim)), None)
    name = claim.flow if claim is not None else written_as(records) or flow.name
    target_alias = name.partition("->")[2]
    return replace(flow, target=replace(flow.target, alias=target_alias))


def _require_two(identity: Identity) -> None:
    if identity.source_cluster_id == identity.target_cluster_id:
        raise TerminalError(
            f"{identity.flow}: both are the same cluster (id {identity.source_cluster_id})",
            hint="check the bootstrap.servers of both",
            code="same-cluster",
            flow=identity.flow,
        )

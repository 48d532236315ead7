"""Record, on a person's word, which flow owns the state on the target (docs/decisions/0022-identity.md).

A claim is needed for an alias that was renamed, and for a cluster that was restored or built anew under another id.
The claim is moved through the control lane of the flow that has it. A driver that copies under the old name is fenced
by that, and is refused when it comes again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import FlowClaim, written_as
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.ownership import Identity, why_not_ours
from twinlog.state.ledger import Ledger, ledger_from, no_ledger, records_in
from twinlog.topics.discovery_rules import same_cluster
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

    Raises UsageError without a reason, ConfigError `same-cluster`, TerminalError `no-ledger` before the first cycle,
    FencedError if another driver took the old or the new flow meanwhile, and errors of the clusters.
    """
    if not reason.strip():
        raise UsageError("a claim needs a reason", hint='such as: --reason "B is called west now"')
    identity = Identity(flow.name, clusters.source.cluster_id(), clusters.target.cluster_id())
    if identity.source_cluster_id == identity.target_cluster_id:
        raise same_cluster(flow, identity.source_cluster_id)
    records = records_in(clusters.target, flow.ledger_topic)
    if not records:
        raise no_ledger(flow)
    owner = _owned_as(flow, records)
    # This call changes the owner. Ownership is therefore judged below, by the ledger read behind this fence.
    state = replace(state_topics(flow, clusters), source_cluster_id="", target_cluster_id="")
    owned = Ownership.taken(owner, clusters, "claim", state=state)
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
        owned.write([StateRecord(flow.ledger_topic, 0, key, value) for key, value in changes])
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
    moved = () if ours else [flow_claim for flow_claim in ledger.claims if flow_claim.flow != flow.name]
    changes = [
        *((it.key(), None) for it in (*moved, *forgotten)),
        *((incarnation.key(), incarnation.value()) for incarnation in kept),
        *(() if ours else [(claim.key(), claim.value())]),
    ]
    result = ClaimResult(
        flow=flow.name,
        changed=bool(changes),
        claim=claim,
        before=before,
        kept=tuple(sorted(incarnation.topic for incarnation in kept)),
        others=others,
        forgotten=tuple(sorted({reverse_flow.ledger_topic for reverse_flow in forgotten})),
    )
    return result, changes


def _incarnations(
    clusters: Clusters, ledger: Ledger, source_cluster_id: str
) -> tuple[list[Incarnation], tuple[str, ...]]:
    """Sort topics copied from another cluster: those that are the same on this one, updated to it, and the others.

    Topic ids are random. A topic id that is found again belongs to the same topic, on a cluster that was restored.
    """
    elsewhere = {
        topic: incarnation
        for topic, incarnation in ledger.incarnations.items()
        if differ(incarnation.source_cluster_id, source_cluster_id)
    }
    found = clusters.source.describe_topics(elsewhere).found if elsewhere else {}
    kept = [
        replace(incarnation, source_cluster_id=source_cluster_id)
        for topic, incarnation in elsewhere.items()
        if topic in found and incarnation.topic_id and found[topic].topic_id == incarnation.topic_id
    ]
    return kept, tuple(sorted(set(elsewhere) - {incarnation.topic for incarnation in kept}))


def _owned_as(flow: FlowSettings, records: tuple[LedgerRecord, ...]) -> FlowSettings:
    """Return the flow under the owner's name, or under the name it was last written by if there is no claim."""
    claim = next((record for record in records if isinstance(record, FlowClaim)), None)
    name = claim.flow if claim is not None else written_as(records) or flow.name
    target_alias = name.partition("->")[2]
    return replace(flow, target=replace(flow.target, alias=target_alias))

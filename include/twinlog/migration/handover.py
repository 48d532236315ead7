"""Migrate a flow to MirrorMaker 2: prove that the copies end where progress says, and leave what MM2 reads.

Progress is in MM2's own format already. This adds the same positions under MM2's own connector name and offsets topic
if these differ, up-to-date offset-syncs and checkpoints, and a record in the ledger that pauses the flow, so that no
cycle of twinlog copies beside MM2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import HANDOVER, FlowPhase, FlowState
from twinlog.formats.mm2.connect_offset import parse_offset_value, source_offset_key
from twinlog.groups import checkpoints as checkpoints_step
from twinlog.lane.copy.state_records import StateRecord, progress_record
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle.records import noted
from twinlog.migration.copier import Origin, require_stopped
from twinlog.migration.places import discover_all, places
from twinlog.migration.takeover import DEPTH, Proved, copies_of, prove_all, report_of, require_phase, taken
from twinlog.migration.takeover_report import PartitionProof, ProofState, TakeoverReport, proof_of
from twinlog.offset_sync import emit
from twinlog.state.ledger import latest_or_empty
from twinlog.state.mm2_topics import read_checkpoints
from twinlog.state.progress import read_progress


def run(
    flow: FlowSettings,
    clusters: Clusters,
    origin: Origin,
    *,
    run_id: str,
    depth: int = DEPTH,
    dry_run: bool = False,
    watch_seconds: float | None = None,
) -> TakeoverReport:
    """Migrate the flow to `origin`; with `dry_run` only say what would be done.

    Raises TerminalError `mm2-running`, `nothing-to-hand-over` or `phase`, and what clusters refuse.
    """
    require_phase(flow, clusters, {FlowPhase.ACTIVE, FlowPhase.PAUSED})
    progress = read_progress(flow, clusters.target)
    if not progress:
        raise TerminalError(
            f"twinlog has copied nothing in flow {flow.name} yet: there is nothing to hand over",
            hint="start MirrorMaker: it begins by itself",
            code="nothing-to-hand-over",
            flow=flow.name,
        )
    discovery = discover_all(flow, clusters, progress)
    require_stopped(flow, clusters, origin, copies_of(discovery), watch_seconds)
    if not dry_run:
        owned = taken(flow, clusters, "handover", run_id)
        progress = read_progress(flow, clusters.target)
        discovery = discover_all(flow, clusters, progress)
    began = origin.began_at_start(flow)
    wanted, refused = places(flow, clusters, discovery, progress, began_at_start=began)
    proved = prove_all(clusters, wanted, depth)
    checkpoints = read_checkpoints(flow, clusters.target)
    rows = [*(_strictly(proof_of(it.place, it.found)) for it in proved), *refused]
    report = report_of(flow, "to-mirror-maker", run_id, origin, rows, checkpoints, proved)
    if report.refused or dry_run:
        return report if report.refused else replace(report, state="dry-run")
    # Before the pause: a paused flow writes neither, and MM2 reads both when it starts.
    syncs = emit.run(flow, clusters)
    followed = checkpoints_step.run(flow, clusters) if flow.emit_checkpoints else None
    positions = _positions(flow, clusters, origin, owned.state, proved)
    owned.write([*positions, _pause(owned.state, origin)])
    notes = [f"{syncs.syncs} offset-sync(s) written to {syncs.topic} on {syncs.cluster}"]
    notes += [syncs.warning] if syncs.warning else []
    notes += (
        [f"{followed.checkpoints} checkpoint(s) written to {checkpoints.topic}"]
        if followed is not None
        else []
    )
    return replace(report, state="done", positions_written=len(positions), notes=tuple(notes))


def _strictly(proof: PartitionProof) -> PartitionProof:
    """Refuse a copy that goes beyond progress.

    twinlog's progress is in the data's transaction, so another program wrote the records beyond it.
    """
    if proof.state is not ProofState.PROVED or not proof.beyond:
        return proof
    return replace(
        proof,
        state=ProofState.REFUSED,
        message=f"{proof.remote_topic}-{proof.partition} holds {proof.beyond} record(s) beyond twinlog's progress:"
        " somebody else copied them",
        hint="run `twinlog migrate takeover` first: it finds where the copy really ends",
    )


def _positions(
    flow: FlowSettings, clusters: Clusters, origin: Origin, state: StateTopics, proved: Sequence[Proved]
) -> list[StateRecord]:
    """Return positions under MM2's name, if that is not ours and they differ from what is stored."""
    if origin.keeps_progress_as(state):
        return []
    described = clusters.target.describe_topics([origin.offsets_topic]).require()
    theirs = replace(
        state,
        connector_name=origin.connector,
        offsets_topic=origin.offsets_topic,
        offsets_partitions=len(described[origin.offsets_topic].partitions),
    )
    stored = latest_or_empty(clusters.target, origin.offsets_topic)
    records = []
    for it in proved:
        (topic, partition), last = it.place.source, it.found.last_upstream
        key = source_offset_key(origin.connector, flow.source.alias, partition, topic)
        if last >= 0 and parse_offset_value(stored.get(key)) != last:
            records.append(progress_record(theirs, topic, partition, last))
    return records


def _pause(state: StateTopics, origin: Origin) -> StateRecord:
    """Pause the flow in the same transaction, so that no cycle of twinlog begins to copy meanwhile."""
    now = clock.now_ms()
    reason = f"handed over to MirrorMaker 2 ({origin.connector}); `twinlog migrate takeover` takes it back"
    return noted(state, FlowState(FlowPhase.PAUSED, now, HANDOVER, reason))

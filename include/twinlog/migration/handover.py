"""Migrate a flow to MirrorMaker 2: prove that the copies end where progress says, and leave what MM2 reads.

Progress is in MM2's own format already. This adds the same positions under MM2's own connector name and offsets topic
if these differ, up-to-date offset-syncs and checkpoints, and a record in the ledger that pauses the flow, so that no
cycle of twinlog copies beside MM2.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import HANDOVER, FlowPhase, FlowState
from twinlog.formats.mm2.connect_offset import parse_offset_value, source_offset_key
from twinlog.groups import checkpoints
from twinlog.kafka_types import Positions
from twinlog.lane.copy.state_records import StateRecord, progress_record
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle.records import noted
from twinlog.migration import steps
from twinlog.migration.copier import Origin
from twinlog.migration.steps import Migration
from twinlog.migration.takeover_report import PartitionProof, ProofState, TakeoverReport, proof_of
from twinlog.offset_sync import emit
from twinlog.procedure import Outcome, Step, StepName, done
from twinlog.state.ledger import latest_or_empty
from twinlog.state.progress import read_progress


def run(
    flow: FlowSettings, clusters: Clusters, origin: Origin, *, run_id: str, **options: Any
) -> TakeoverReport:
    """Migrate the flow to `origin`; `options` are those of `Migration`.

    Raises TerminalError `mm2-running`, `nothing-to-hand-over` or `phase`, and what clusters refuse.
    """
    read = partial(_progress, flow, clusters)
    return steps.run(Migration(flow, clusters, origin, read, run_id, **options), "to-mirror-maker", STEPS)


def _progress(flow: FlowSettings, clusters: Clusters) -> Positions:
    progress = read_progress(flow, clusters.target)
    if not progress:
        raise TerminalError(
            f"twinlog has copied nothing in flow {flow.name} yet: there is nothing to hand over",
            "start MirrorMaker: it begins by itself",
            code="nothing-to-hand-over",
            flow=flow.name,
        )
    return progress


def _compare(work: Migration) -> Outcome:
    work.prove()
    return work.judged(_strictly(proof_of(proved.place, proved.found)) for proved in work.proved)


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


def _pass_on(work: Migration) -> Outcome:
    """Write what MM2 reads when it starts, before the pause: a paused flow writes neither."""
    flow, clusters = work.flow, work.clusters
    syncs = emit.run(flow, clusters)
    work.notes.append(f"{syncs.syncs} offset-sync(s) written to {syncs.topic} on {syncs.cluster}")
    work.notes += [syncs.warning] if syncs.warning else []
    written = checkpoints.run(flow, clusters).checkpoints if flow.emit_checkpoints else 0
    return done(f"{syncs.syncs:,} offset-sync(s) and {written:,} checkpoint(s) written")


def _write(work: Migration) -> Outcome:
    """Write positions and the pause in one transaction, so that no cycle of twinlog begins to copy meanwhile."""
    origin, state = work.copier, work.owned.state
    positions = _positions(work, state)
    reason = f"handed over to MirrorMaker 2 ({origin.connector}); `twinlog migrate takeover` takes it back"
    pause = FlowState(FlowPhase.PAUSED, clock.now_ms(), HANDOVER, reason)
    work.owned.write([*positions, noted(state, pause)])
    work.written = len(positions)
    return done(f"{len(positions):,} position(s) written, {work.flow.name} is paused")


def _positions(work: Migration, state: StateTopics) -> list[StateRecord]:
    """Return positions under MM2's name, if that is not ours and they differ from what is stored."""
    origin, target = work.copier, work.clusters.target
    if origin.keeps_progress_as(state):
        return []
    described = target.describe_topics([origin.offsets_topic]).require()
    theirs = replace(
        state,
        connector_name=origin.connector,
        offsets_topic=origin.offsets_topic,
        offsets_partitions=len(described[origin.offsets_topic].partitions),
    )
    stored = latest_or_empty(target, origin.offsets_topic)
    records = []
    for proved in work.proved:
        (topic, partition), last = proved.place.source, proved.found.last_upstream
        key = source_offset_key(origin.connector, work.flow.source.alias, partition, topic)
        if last >= 0 and parse_offset_value(stored.get(key)) != last:
            records.append(progress_record(theirs, topic, partition, last))
    return records


STEPS = (
    steps.STOPPED,
    steps.BEGIN,
    steps.comparison("every copy ends where progress says", _compare),
    Step(
        StepName.GROUPS,
        "writes current offset-syncs and checkpoints",
        "MM2 and its clients translate as twinlog does",
        "run it again: the flow is still twinlog's",
        _pass_on,
        lambda _: "",
    ),
    Step(
        StepName.WRITE,
        "writes progress under MM2's names where these differ, and pauses the flow, in one transaction",
        "start MM2: it goes on behind the last record",
        "the flow is still twinlog's: run it again",
        _write,
        lambda _: "",
    ),
)
"""The steps of a hand-over."""

"""What a followed flow does beside its copy, each step at its interval, over connections of its own.

A step that fails is reported and tried again at its next turn: nothing here can stop the copy, or hold it up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.clusters import Clusters, open_clusters
from twinlog.config.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError
from twinlog.steps import checkpoints, heartbeats, map_upkeep, offset_syncs
from twinlog.steps.follow_report import Reporter, RunState

OFFSET_SYNCS_SECONDS = 5.0
"""MM2 writes them as records flow; nobody who reads them looks more often than every few seconds."""

REPORT_SECONDS = 60.0
"""As often as a scheduled flow is reported, usually: the gate has no older numbers when the source is lost."""

UPKEEP_SECONDS = 600.0

HEAD_START_SECONDS = 3.0
"""What the copy has before the first turn: it fences then, and records wait for it."""

Step = Callable[[FlowSettings, Clusters], object]


@dataclass(frozen=True, slots=True)
class Turn:
    """A step and how often it has its turn, in seconds."""

    name: str
    every: float
    step: Step


def turns(flow: FlowSettings, run_state: RunState) -> tuple[Turn, ...]:
    """List what is done beside the copy of `flow`, at MM2's intervals, for the run that `run_state` tells of.  Pure.

    Heartbeats are written for the flow, and for a way back that only beats; checkpoints also commit the positions of
    groups: each follows the shorter of the intervals that are switched on.
    """
    listed: list[Turn] = []
    beating = [it for it in (flow, flow.way_back) if it is not None and it.emit_heartbeats]
    if beating:
        every = min(it.heartbeats_interval_seconds for it in beating)
        listed.append(Turn("heartbeats", every, heartbeats.beat))
    if flow.emit_offset_syncs:
        listed.append(Turn("offset_syncs", OFFSET_SYNCS_SECONDS, offset_syncs.run))
    if flow.emit_checkpoints or flow.sync_group_offsets:
        checkpointing = (flow.emit_checkpoints, flow.emit_checkpoints_interval_seconds)
        committing = (flow.sync_group_offsets, flow.sync_group_offsets_interval_seconds)
        every = min(seconds for switched_on, seconds in (checkpointing, committing) if switched_on)
        listed.append(Turn("checkpoints", every, checkpoints.run))
    listed.append(Turn("report", REPORT_SECONDS, Reporter(run_state).report))
    listed.append(Turn("map_upkeep", UPKEEP_SECONDS, map_upkeep.run))
    return tuple(listed)


def due(listed: Sequence[Turn], last: dict[str, float], now: float) -> list[Turn]:
    """Say whose turn it is at `now` (monotonic seconds), given when each had its last.  Pure."""
    return [it for it in listed if now - last.get(it.name, float("-inf")) >= it.every]


@contextmanager
def beside(
    flow: FlowSettings,
    listed: Sequence[Turn],
    on_trouble: Callable[[str, TwinlogError], None],
    *,
    head_start: float = 0.0,
) -> Iterator[None]:
    """Keep the turns going, from `head_start` seconds on until the context ends.

    `on_trouble` is told the name of a step that failed, and why.
    """
    over = threading.Event()
    arguments = (flow, listed, on_trouble, over, head_start)
    thread = threading.Thread(target=_keep_turns, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _keep_turns(
    flow: FlowSettings,
    listed: Sequence[Turn],
    on_trouble: Callable[[str, TwinlogError], None],
    over: threading.Event,
    head_start: float,
) -> None:
    over.wait(head_start)
    last: dict[str, float] = {}
    with open_clusters(flow) as clusters:
        while not over.is_set():
            for turn in due(listed, last, time.monotonic()):
                last[turn.name] = time.monotonic()
                try:
                    turn.step(flow, clusters)
                except TwinlogError as error:
                    on_trouble(turn.name, error)
                except Exception as error:  # noqa: BLE001 - one step's mistake, or a full disk, is not the others' end
                    on_trouble(
                        turn.name, TerminalError(f"{type(error).__name__}: {error}", code="unexpected")
                    )
            over.wait(0.2)

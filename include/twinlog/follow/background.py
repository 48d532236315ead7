"""What a followed flow does beside its copy, each step at its interval, over connections of its own.

A step that fails is reported and tried again at its next turn: nothing here can stop the copy, or hold it up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.open import Clusters, open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError
from twinlog.follow.report import Reporter, RunState
from twinlog.groups import checkpoints
from twinlog.monitoring import heartbeats
from twinlog.offset_sync import emit, map_compaction

OFFSET_SYNCS_SECONDS = 5.0
"""MM2 writes them as records flow; nobody who reads them looks more often than every few seconds."""

REPORT_SECONDS = 60.0
"""As often as a scheduled flow is reported, usually: the gate has no older numbers when the source is lost."""

UPKEEP_SECONDS = 600.0

HEAD_START_SECONDS = 3.0
"""What the copy has before the first turn: it fences then, and records wait for it."""

LAST_BEAT_SECONDS = 5.0
"""How long the end waits for a beat to a cluster that is no end of the flow: nothing is lost by leaving it."""

Step = Callable[[FlowSettings, Clusters], object]
OnTrouble = Callable[[str, TwinlogError], None]


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
        listed.append(Turn("offset_syncs", OFFSET_SYNCS_SECONDS, emit.run))
    if flow.emit_checkpoints or flow.sync_group_offsets:
        checkpointing = (flow.emit_checkpoints, flow.emit_checkpoints_interval_seconds)
        committing = (flow.sync_group_offsets, flow.sync_group_offsets_interval_seconds)
        every = min(seconds for switched_on, seconds in (checkpointing, committing) if switched_on)
        listed.append(Turn("checkpoints", every, checkpoints.run))
    listed.append(Turn("report", REPORT_SECONDS, Reporter(run_state).report))
    listed.append(Turn("map_upkeep", UPKEEP_SECONDS, map_compaction.run))
    return tuple(listed)


def due(listed: Sequence[Turn], last: dict[str, float], now: float) -> list[Turn]:
    """Say whose turn it is at `now` (monotonic seconds), given when each had its last.  Pure."""
    return [it for it in listed if now - last.get(it.name, float("-inf")) >= it.every]


@contextmanager
def beside(
    flow: FlowSettings,
    listed: Sequence[Turn],
    on_trouble: OnTrouble,
    *,
    head_start: float = 0.0,
) -> Iterator[None]:
    """Keep the turns going, from `head_start` seconds on until the context ends; beat for the pairs the flow carries.

    These have turns and connections of their own: a cluster that is no end of the flow may be down for long.
    `on_trouble` is told the name of a step that failed, and why; of carried pairs only when it is news.
    """
    over = threading.Event()
    arguments = [(flow, listed, on_trouble, over, head_start)]
    for pair in flow.carries:
        beats = Turn("heartbeats", pair.heartbeats_interval_seconds, heartbeats.beat)
        arguments.append((pair, (beats,), only_news(on_trouble, pair.name), over, head_start))
    threads = [threading.Thread(target=_keep_turns, args=each, daemon=True) for each in arguments]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        threads[0].join()
        for thread in threads[1:]:
            thread.join(LAST_BEAT_SECONDS)


def only_news(on_trouble: OnTrouble, pair: str) -> OnTrouble:
    """Return a listener that tells of the trouble of a carried pair once, until it is another."""
    told: dict[str, str] = {}

    def tell(step: str, error: TwinlogError) -> None:
        if told.get(step) != error.message:
            told[step] = error.message
            on_trouble(f"{step} of {pair}", error)

    return tell


def _keep_turns(
    flow: FlowSettings,
    listed: Sequence[Turn],
    on_trouble: OnTrouble,
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

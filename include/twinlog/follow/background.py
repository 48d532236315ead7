"""Run the background tasks of a followed flow, each at its interval, over connections of their own.

A task that fails is reported and tried again at its next turn. No task here can stop the copy, or delay it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from twinlog.cluster.api import Clusters, open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.duties.plan import DutyName, due, every
from twinlog.duties.run import Duties
from twinlog.errors import ClusterRefused, TerminalError, TwinlogError
from twinlog.follow.report import LaneTeller, OnReport, Reporter, RunState
from twinlog.groups import checkpoints
from twinlog.monitoring import heartbeats, samples
from twinlog.monitoring.exporter import KEPT_SECONDS, Board
from twinlog.offset_sync import emit, map_compaction

OFFSET_SYNCS_SECONDS = 5.0
"""MM2 writes offset syncs as records flow; their readers read no more often than every few seconds."""

LANES_SECONDS = 5.0
"""How often what lanes have committed is told."""

RESTS = 50.0
"""A task that would take a fiftieth of a core has its turns less often."""

REPORT_SECONDS = 60.0
"""About as often as a scheduled flow is reported: if the source is lost, the gate has numbers no older than this."""

COMPACTION_SECONDS = 600.0

HEAD_START_SECONDS = 3.0
"""Time the copy has before the first turn: it fences then, and records wait for it."""

DUTIES_HEAD_START_SECONDS = 5.0
"""Time the copy has before the first duty: it catches up then, and the duties compete with it for the machine."""

LAST_TURN_SECONDS = 5.0
"""How long the end waits for tasks under way: none of them loses anything."""

AGAIN: Final = object()
"""Returned by a task that failed by what may pass: its next turn is after `AGAIN_SECONDS`, not after its interval."""

AGAIN_SECONDS = 30.0

Step = Callable[[FlowSettings, Clusters], object]
OnError = Callable[[str, TwinlogError], None]


@dataclass(frozen=True, slots=True)
class Turn:
    """A task and how often it has its turn, in seconds: less often if `rests` times its CPU-seconds are more."""

    name: str
    every: float
    step: Step
    rests: float = 0.0


def turns(
    flow: FlowSettings,
    run_state: RunState,
    on_report: OnReport = lambda report: None,
    board: Board | None = None,
) -> tuple[Turn, ...]:
    """List the background tasks of `flow`, at MM2's intervals, for the run that `run_state` describes. Pure.

    Their numbers go to `board`.

    Heartbeats are written for the flow, and for a reverse flow that only emits heartbeats. The checkpoints task also
    commits the positions of groups. Each of these two tasks has the shorter of the intervals that are switched on.
    """
    listed: list[Turn] = []
    emitting = [
        settings
        for settings in (flow, flow.reverse_heartbeats)
        if settings is not None and settings.emit_heartbeats
    ]
    if emitting:
        every = min(settings.heartbeats_interval_seconds for settings in emitting)
        listed.append(Turn("heartbeats", every, heartbeats.beat))
    if flow.emit_offset_syncs:
        listed.append(Turn("offset_syncs", OFFSET_SYNCS_SECONDS, emit.Emitter().turn, RESTS))
    if flow.emit_checkpoints or flow.sync_group_offsets:
        checkpointing = (flow.emit_checkpoints, flow.emit_checkpoints_interval_seconds)
        committing = (flow.sync_group_offsets, flow.sync_group_offsets_interval_seconds)
        every = min(seconds for switched_on, seconds in (checkpointing, committing) if switched_on)
        listed.append(Turn("checkpoints", every, _told_checkpoints(board, every)))
    if board is not None:
        listed.append(Turn("lanes", LANES_SECONDS, LaneTeller(run_state, board).tell, RESTS))
    listed.append(Turn("report", REPORT_SECONDS, Reporter(run_state, on_report, board=board).report))
    listed.append(Turn("map_compaction", COMPACTION_SECONDS, map_compaction.run))
    return tuple(listed)


def _told_checkpoints(board: Board | None, every: float) -> Step:
    """Return the checkpoints task, which tells its numbers; they are shown until it has failed for a while.

    It fails with ClusterRefused if the source does not tell the positions of a group, after it has done the others.
    """

    def step(flow: FlowSettings, clusters: Clusters) -> None:
        result = checkpoints.run(flow, clusters)
        if board is not None:
            told = samples.of_groups(result.groups, result.states, result.latency_ms)
            board.tell("groups", told, max(KEPT_SECONDS, 3 * every))
        if result.untold:
            raise ClusterRefused(result.untold, flow=flow.name)

    return step


def duty_turns(duties: Duties) -> tuple[Turn, ...]:
    """List the duties of a flow that are on, each at its own interval."""

    def step(name: DutyName) -> Step:
        return lambda _, clusters: AGAIN if duties.do(name, clusters) else None

    return tuple(Turn(name.value, seconds, step(name)) for name, seconds in every(duties.flow).items())


@contextmanager
def beside(
    flow: FlowSettings,
    listed: Sequence[Turn],
    on_error: OnError,
    *,
    head_start: float = 0.0,
    duties: Duties | None = None,
) -> Iterator[None]:
    """Run the tasks from `head_start` seconds on until the context ends, and heartbeats of the pairs the flow carries.

    Heartbeats have turns and connections of their own: beside a large map, or a source that does not answer, they
    would be late.  So have `duties`, as an audit may take minutes, and carried pairs, as a cluster outside of the flow
    may be down for long.
    `on_error` gets the name of a task that failed, and why. Of carried pairs it gets an error only if it differs
    from the last one.
    """
    over = threading.Event()
    beats = tuple(turn for turn in listed if turn.step is heartbeats.beat)
    others = tuple(turn for turn in listed if turn not in beats)
    arguments = [(flow, turns, on_error, over, head_start) for turns in (others, beats) if turns]
    if duties is not None:
        arguments.append((flow, duty_turns(duties), on_error, over, DUTIES_HEAD_START_SECONDS))
    for pair in flow.other_heartbeats:
        emission = Turn("heartbeats", pair.heartbeats_interval_seconds, heartbeats.beat)
        arguments.append((pair, (emission,), only_news(on_error, pair.name), over, head_start))
    threads = [threading.Thread(target=_keep_turns, args=each, daemon=True) for each in arguments]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        deadline = time.monotonic() + LAST_TURN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def only_news(on_error: OnError, pair: str) -> OnError:
    """Return a listener that reports a carried pair's error once, until the error changes."""
    told: dict[str, str] = {}

    def tell(step: str, error: TwinlogError) -> None:
        if told.get(step) != error.message:
            told[step] = error.message
            on_error(f"{step} of {pair}", error)

    return tell


def _keep_turns(
    flow: FlowSettings,
    listed: Sequence[Turn],
    on_error: OnError,
    over: threading.Event,
    head_start: float,
) -> None:
    over.wait(head_start)
    last: dict[Turn, float] = {}
    with open_clusters(flow) as clusters:
        while not over.is_set():
            for turn in due(listed, lambda it: it.every, last, time.monotonic()):
                last[turn], cpu = time.monotonic(), time.thread_time()
                try:
                    if turn.step(flow, clusters) is AGAIN:
                        last[turn] -= max(0.0, turn.every - AGAIN_SECONDS)
                except TwinlogError as error:
                    on_error(turn.name, error)
                except Exception as error:  # noqa: BLE001 - one step's mistake, or a full disk, is not the others' end
                    on_error(turn.name, TerminalError(f"{type(error).__name__}: {error}", code="unexpected"))
                last[turn] += max(0.0, turn.rests * (time.thread_time() - cpu) - turn.every)
            over.wait(0.2)

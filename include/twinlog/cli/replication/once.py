"""`twinlog run --once`: one cycle of each flow, several at the same time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinlog.cli.flows import Done, each_flow, flows_at_once
from twinlog.cli.render import shown
from twinlog.cli.replication.cycle import FlowRun, Request, run_cycle
from twinlog.cli.say import say
from twinlog.errors import TransientError

if TYPE_CHECKING:
    from twinlog.cli.failure import Failure
    from twinlog.cli.replication.follow import WarmSpark
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.rounds import LaneRunner
    from twinlog.lane.spec import LaneReport, LaneSpec

AT_ONCE = 8
"""The most cycles at the same time: they wait for brokers most of the time.  Their lanes wait for slots."""


def run_once(
    flows: Sequence[FlowSettings], asked: Request, spark: WarmSpark, master: str | None
) -> Done[FlowRun]:
    """Run one cycle of each flow; flows on different Spark masters one after the other, as there is one session.

    Ctrl-C kills the lanes and ends the cycles that have begun; what is committed counts.
    """
    from twinlog.cluster.open import open_clusters

    interrupted = threading.Event()

    def runner(flow: FlowSettings) -> LaneRunner:
        return Interruptible(spark.runner(master or flow.copy.spark_master), interrupted)

    def cycle(flow: FlowSettings) -> FlowRun:
        with open_clusters(flow) as clusters:
            return run_cycle(flow, clusters, asked, lambda: runner(flow), on_progress)

    def failed(flow: FlowSettings, failure: Failure) -> FlowRun:
        return FlowRun(flow.name, asked.run_id, error=failure)

    def interrupt() -> None:
        say("ending on Ctrl-C; what is committed counts")
        interrupted.set()
        spark.cancel()

    with shown() as on_progress:
        if len(flows) == 1 or len({master or flow.copy.spark_master for flow in flows}) > 1:
            return each_flow(flows, cycle, failed)
        return flows_at_once(flows, cycle, failed, AT_ONCE, interrupt)


@dataclass(frozen=True, slots=True)
class Interruptible:
    """A runner whose lanes are not run again once `interrupted` is set: a copy would begin another round."""

    runner: LaneRunner
    interrupted: threading.Event

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once."""
        return self.runner.slots

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run every lane to its end.  Raises KeyboardInterrupt in place of any error after an interruption."""
        if self.interrupted.is_set():
            raise KeyboardInterrupt
        try:
            return self.runner.run(lanes)
        except TransientError:
            if self.interrupted.is_set():
                raise KeyboardInterrupt from None
            raise

    def cancel(self) -> None:
        """Kill all running lanes, from another thread."""
        self.runner.cancel()

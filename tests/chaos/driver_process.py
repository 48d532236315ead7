"""A copy driver as a process of its own, with each lane in a process of its own: things to kill.

    python driver_process.py mm2.properties A->B

Lanes are forked, so they outlive a driver that is killed: zombies that go on writing until they are fenced, as
Spark's Python workers do when their driver dies.
"""

from __future__ import annotations

import multiprocessing
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.copying import copy
from twinlog.errors import TransientError
from twinlog.lane.copy.copy_lane import copy_lane
from twinlog.lane.spec import LaneReport, LaneSpec


class ProcessRunner:
    """Runs each lane in a forked process."""

    slots = 2

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        forks = multiprocessing.get_context("fork")
        answers = forks.Queue()
        processes = [forks.Process(target=_copy, args=(spec, answers)) for spec in lanes]
        for process in processes:
            process.start()
        print("copying", flush=True)
        reports = []
        for process in processes:
            process.join()
            if process.exitcode:
                raise TransientError("a lane's process died", code=copy.TASKS_DIED)
        while len(reports) < len(lanes):
            reports.append(answers.get(timeout=10))
        return tuple(reports)


def _copy(spec: LaneSpec, answers: multiprocessing.Queue) -> None:
    answers.put(copy_lane(spec))


def main() -> int:
    flow = load(Path(sys.argv[1])).flows[sys.argv[2]]
    with open_clusters(flow) as clusters:
        result = copy.run(flow, clusters, ProcessRunner(), run_id=uuid.uuid4().hex)
    print(result.state, result.records, result.rounds, flush=True)
    return 0 if result.state in {"done", "nothing"} else 1


if __name__ == "__main__":
    sys.exit(main())

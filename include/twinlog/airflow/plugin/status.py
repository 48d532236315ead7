"""The content of the page, asked of the clusters at most every few seconds, however many people look."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from twinlog.airflow.flows import flow_dags, read_configuration
from twinlog.airflow.secrets import ask_airflow
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError

if TYPE_CHECKING:
    from twinlog.formats.ledger.records import CycleReport
    from twinlog.monitoring.status import FlowStatus

FRESH_S = 5.0
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class SeenFlow:
    """One flow: its state and last cycle, or the error that kept them from being read."""

    dag_id: str
    flow: FlowSettings
    status: FlowStatus | None = None
    last_cycle: CycleReport | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class SeenFlows:
    """Every enabled flow of the configuration at `at` (epoch seconds), or why the file cannot be used."""

    at: float
    file: str
    flows: tuple[SeenFlow, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str = ""


class StatusCache:
    """Calls `look` if its last answer is older than `fresh_s`; callers in the meantime wait for that answer."""

    def __init__(
        self,
        look: Callable[[], SeenFlows],
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = Lock()
        self._answer: SeenFlows | None = None
        self._answered = 0.0

    def get(self) -> SeenFlows:
        """Return an answer that is fresh enough."""
        with self._lock:
            if self._answer is None or self._clock() - self._answered > self._fresh_s:
                self._answer = self._look()
                self._answered = self._clock()
            return self._answer


def look_at_flows() -> SeenFlows:
    """Read the configuration and ask every flow's clusters, several at once."""
    from twinlog.airflow.flows import configuration_path

    path = configuration_path()
    try:
        configuration = read_configuration(ask_airflow)
        dags = flow_dags(configuration)
    except TwinlogError as error:
        return SeenFlows(time.time(), path.name, error=str(error))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        flows = tuple(pool.map(_look_at, dags, dags.values()))
    return SeenFlows(time.time(), path.name, flows, configuration.warnings)


def _look_at(dag_id: str, flow: FlowSettings) -> SeenFlow:
    from twinlog.cluster.open import open_clusters
    from twinlog.monitoring import status
    from twinlog.state.ledger import read_ledger

    try:
        with open_clusters(flow) as clusters:
            seen = status.run(flow, clusters)
            return SeenFlow(dag_id, flow, seen, read_ledger(flow, clusters.target).last_report)
    except TwinlogError as error:
        return SeenFlow(dag_id, flow, error=str(error))

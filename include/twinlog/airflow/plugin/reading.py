"""Read what the pages show: the configuration, and of each flow its clusters, in the background (background.py)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from twinlog.airflow.flows import CONFIG_VARIABLE, flows_by_dag, read_configuration
from twinlog.airflow.plugin.reports import KeptReport, kept_reports
from twinlog.airflow.secrets import ask_airflow
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError

if TYPE_CHECKING:
    from twinlog.audit.coverage import PartitionCoverage
    from twinlog.cluster.api import Cluster
    from twinlog.groups.report import CheckpointsResult
    from twinlog.monitoring.status import FlowStatus
    from twinlog.state.ledger import Ledger
    from twinlog.topics.snapshot import FlowSnapshot


T = TypeVar("T")

Start = Callable[[Callable[[], None]], Any]


def in_a_thread(work: Callable[[], None]) -> None:
    """Do work that may hang for a minute without keeping a process from its end."""
    Thread(target=work, daemon=True, name="twinlog-page").start()


class Background(Generic[T]):
    """The last answer of `ask`.

    It is asked anew if somebody looks and the last answer is older than `every_s`, by one thread at a time; nobody
    waits.  If nobody looks, nothing is asked.  `ask` must not raise.
    """

    def __init__(
        self,
        ask: Callable[[], T],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        start: Start = in_a_thread,
    ) -> None:
        self._ask = ask
        self._every_s = every_s
        self._clock = clock
        self._start = start
        self._lock = Lock()
        self._busy = False
        self._answered: float | None = None
        self._answer: T | None = None

    def get(self) -> T | None:
        """Return the last answer, None before the first one."""
        with self._lock:
            old = self._answered is None or self._clock() - self._answered >= self._every_s
            due, self._busy = old and not self._busy, self._busy or old
        if due:
            self._start(self._renew)
        return self._answer

    def _renew(self) -> None:
        try:
            self._answer = self._ask()
        finally:
            with self._lock:
                self._answered, self._busy = self._clock(), False


log = logging.getLogger(__name__)

EVERY_S = 10.0
"""How old an answer is when a viewer has the clusters asked anew."""

SELDOM_S = 120.0
"""The same for what takes a reading of every map and every group: audit coverage, and positions of groups."""


@dataclass(frozen=True, slots=True)
class Details:
    """Audit coverage and positions of groups at `at` (epoch seconds), each with the reason why it is not there."""

    at: float
    coverage: tuple[PartitionCoverage, ...] = ()
    coverage_error: str = ""
    groups: CheckpointsResult | None = None
    groups_error: str = ""


@dataclass(frozen=True, slots=True)
class SeenFlow:
    """One flow as it was at `at` (epoch seconds; 0: its clusters are being asked for the first time).

    `error` and `hint` say why it could not be read.
    """

    dag_id: str
    flow: FlowSettings
    at: float = 0.0
    status: FlowStatus | None = None
    ledger: Ledger | None = None
    details: Details | None = None
    reports: tuple[KeptReport, ...] = ()
    error: str = ""
    hint: str = ""

    @property
    def never_began(self) -> bool:
        """Say whether this is a flow that only brings clients home, and no way home has ever begun."""
        return self.flow.homes is not None and self.status is None and not self.error


@dataclass(frozen=True, slots=True)
class SeenFlows:
    """Every enabled flow of the configuration that was read at `at` (epoch seconds), or why it cannot be used.

    `at` is 0 while it is being read for the first time.
    """

    at: float
    file: str
    flows: tuple[SeenFlow, ...] = ()
    warnings: tuple[str, ...] = ()
    error: str = ""

    @property
    def being_read(self) -> bool:
        """Say whether something is being read for the first time."""
        return not self.at or any(not flow.at for flow in self.flows)


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """The flows of the file by their Dag, as read at `at`, or why the file cannot be used."""

    at: float
    flows: Mapping[str, FlowSettings]
    warnings: tuple[str, ...] = ()
    error: str = ""


def file_name() -> str:
    """Return the name of the configuration file, without its folder."""
    return Path(os.environ.get(CONFIG_VARIABLE, "")).name


def configuration_now() -> ReadConfiguration:
    """Read the file; Airflow's connections are resolved."""
    try:
        configuration = read_configuration(ask_airflow)
        return ReadConfiguration(time.time(), flows_by_dag(configuration), configuration.warnings)
    except (TwinlogError, OSError) as error:
        return ReadConfiguration(time.time(), {}, error=str(error))
    except Exception as error:  # a secrets backend may raise anything
        log.exception("the configuration cannot be read")
        return ReadConfiguration(time.time(), {}, error=f"{file_name()} cannot be read: {error!r}")


class FlowReader:
    """Asks the clusters of one flow.

    The connections stay open from one reading to the next, as in a run that follows: topics of twinlog's own state are
    read on from where the last reading ended.  After an error they are opened anew.
    """

    def __init__(self, dag_id: str, flow: FlowSettings) -> None:
        self.flow = flow
        self._seen = SeenFlow(dag_id, flow)
        self._clusters: tuple[Cluster, ...] = ()

    def read(self) -> SeenFlow:
        """Return what is seen now, or why nothing is."""
        try:
            self._seen = self._read()
        except TwinlogError as error:
            self._failed(error.message, error.hint)
        except Exception as error:  # shown instead of a page that stays as it was
            log.exception("%s cannot be read", self.flow.name)
            self._failed(f"{type(error).__name__}: {error}", "the log of the API server has the traceback")
        return self._seen

    def _failed(self, error: str, hint: str) -> None:
        for cluster in self._clusters:
            cluster.close()
        self._clusters = ()
        blank = SeenFlow(self._seen.dag_id, self.flow)
        self._seen = replace(blank, at=time.time(), error=error, hint=hint, reports=kept_reports(self.flow))

    def _read(self) -> SeenFlow:
        from twinlog.cluster.api import Cluster, Clusters
        from twinlog.monitoring import status
        from twinlog.recovery.reverse import as_noted
        from twinlog.topics.snapshot import FlowSnapshot

        self._clusters = self._clusters or (Cluster(self.flow.source), Cluster(self.flow.target))
        clusters = Clusters(*self._clusters)
        flow = as_noted(self.flow, clusters.target)
        if flow.homes == {}:
            return SeenFlow(self._seen.dag_id, flow, time.time())
        snapshot = FlowSnapshot(flow, clusters)
        seen = status.run(flow, clusters, snapshot)
        details, now = self._seen.details, time.time()
        if details is None or now - details.at >= SELDOM_S:
            details = details_of(snapshot)
        return SeenFlow(
            dag_id=self._seen.dag_id,
            flow=self.flow,
            at=now,
            status=seen,
            ledger=snapshot.ledger,
            details=details,
            reports=kept_reports(self.flow),
        )


def details_of(snapshot: FlowSnapshot) -> Details:
    """Read maps, unless the snapshot has, and groups; what cannot be read says why and is left out."""
    from twinlog.facts.copies import coverage_of
    from twinlog.facts.recall import recall
    from twinlog.groups import checkpoints

    found = Details(time.time())
    try:
        found = replace(found, coverage=coverage_of(recall(snapshot)))
    except TwinlogError as error:
        found = replace(found, coverage_error=str(error))
    try:
        found = replace(found, groups=checkpoints.run(snapshot.flow, snapshot.clusters, dry_run=True))
    except TwinlogError as error:
        found = replace(found, groups_error=str(error))
    return found


class Reader:
    """Keeps the newest reading of every flow, for all viewers together; a flow that hangs holds up no other."""

    def __init__(
        self,
        configuration: Callable[[], ReadConfiguration] = configuration_now,
        reader: Callable[[str, FlowSettings], FlowReader] = FlowReader,
        start: Start = in_a_thread,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._background = partial(Background, every_s=EVERY_S, clock=clock, start=start)
        self._configuration = self._background(configuration)
        self._reader = reader
        self._lock = Lock()
        self._flows: dict[str, tuple[FlowSettings, Background[SeenFlow]]] = {}

    def get(self) -> SeenFlows:
        """Return what is known, at once."""
        file, read = file_name(), self._configuration.get()
        if read is None:
            return SeenFlows(0.0, file)
        flows = tuple(self._flow(dag_id, flow) for dag_id, flow in read.flows.items())
        return SeenFlows(read.at, file, flows, read.warnings, read.error)

    def _flow(self, dag_id: str, flow: FlowSettings) -> SeenFlow:
        with self._lock:
            known = self._flows.get(dag_id)
            if known is None or known[0] != flow:
                known = flow, self._background(self._reader(dag_id, flow).read)
                self._flows[dag_id] = known
        return known[1].get() or SeenFlow(dag_id, flow)

"""The frame of our Dags' tasks: open the clusters of a flow, and send a result to the log and to XCom."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from twinlog.airflow.flows import read_configuration
from twinlog.airflow.secrets import ask_airflow
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.words import in_airflow
from twinlog.airflow.xcom import MOST_CHARACTERS, lines_of, short
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.garbage import collect_rarely
from twinlog.jsonable import Json, to_json
from twinlog.recovery.ways_home import flow_called
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.procedure import Outcome
    from twinlog.state.ledger import Ledger

log = logging.getLogger(__name__)


def configured(name: str) -> tuple[Configuration, FlowSettings]:
    """Read the file and a flow of it, secrets of Airflow's connections included.

    Raises ConfigError, and as `flow_called`.
    """
    configuration = read_configuration(ask_airflow)
    return configuration, flow_called(configuration, name)


def flow_of(name: str) -> FlowSettings:
    """Read a flow, as `configured`."""
    return configured(name)[1]


def warn_of_file() -> None:
    """Write the warnings about the configuration file to the task log: a misspelt key has no other place in Airflow."""
    for line in read_configuration().warnings:
        log.warning("%s", visible(line))


@contextmanager
def opened(flow: FlowSettings) -> Iterator[Clusters]:
    """Open the clusters of a flow for the rest of the task, which has its process to itself."""
    from twinlog.cluster.api import open_clusters

    collect_rarely()
    with open_clusters(flow) as clusters:
        yield clusters


@contextmanager
def opened_own(flow: FlowSettings) -> Iterator[Clusters]:
    """Open the clusters of a flow as `opened`, for a task that reads its state and does not discover its topics."""
    from twinlog.state.own_clusters import open_own_clusters

    collect_rarely()
    with open_own_clusters(flow) as clusters:
        yield clusters


def ledger_of(flow: FlowSettings) -> Ledger:
    """Read the ledger of a flow."""
    from twinlog.state.ledger import read_ledger

    with opened(flow) as clusters:
        return read_ledger(flow, clusters.target)


def skip_out_of_service(flow: FlowSettings, clusters: Clusters, why: str) -> Ledger:
    """Return the flow's ledger.  Raises AirflowSkipException with `why` if the flow was failed over."""
    from twinlog.state.ledger import read_ledger

    ledger = read_ledger(flow, clusters.target)
    if ledger.phase.out_of_service:
        raise AirflowSkipException(f"{flow.name} is {ledger.phase.value}: {why}")
    return ledger


def discovered(flow: FlowSettings, ti: Any) -> Json | None:
    """Return what `discover` has told; a later try asks the ledger who suspends the flow: the run may be an old one."""
    if ti.try_number == 1:
        found: Json | None = ti.xcom_pull(task_ids="discover")
        return found
    from twinlog.topics.pauses import why_held

    return {"stands_by": why_held(flow, ledger_of(flow))}


def log_step(name: StrEnum, outcome: Outcome | None) -> None:
    """Write a step that ended to the task log."""
    if outcome is not None:
        level = logging.ERROR if outcome.ends else logging.INFO
        log.log(level, "%s: %s", name.value, visible(short(in_airflow(outcome.message), MOST_CHARACTERS)))


def shown(result: object, **told: object) -> Json:
    """Write a result to the task log, line by line, and return it as JSON; the log has the fields `told` instead."""
    document: Json = to_json(result)
    for line in lines_of({**document, **told}):
        log.info(line)
    return document

"""Find the configuration file that Airflow works from, and the Dag of each of its flows.

Does not import airflow: Dag files, operators and the plugin's pages all start from this module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from twinlog.config.file.providers import AirflowResolver, stand_in
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.errors import ConfigError
from twinlog.recovery.ways_home import ways_home
from twinlog.shipped import folder

CONFIG_VARIABLE = "TWINLOG_CONFIG"
STEP_JOB = folder("jobs") / "run_step.py"
OF_A_FLOW = ("replicate", "audit", "sync_metadata", "failover_readiness", "drill")
"""The kinds of Dags of which each flow has one; `drill` if it has a schedule."""
BY_HAND = ("failover", "failback", "rebuild", "translate_group", "drill")
"""The Dags that only people start, for a flow that their form names."""
OBSERVING = frozenset({"replicate", "failover_readiness", "failover", "translate_group", "drill"})
"""The kinds of Dags of a flow that another engine copies."""
HOMEWARD = frozenset({"replicate", "failover"})
"""The kinds of Dags that a flow has which only brings clients home, `B.home->A`."""
SPARK_CONNECTION = "twinlog_spark"
"""The Airflow connection that says where spark-submit goes."""


def configuration_path() -> Path:
    """Return the file that TWINLOG_CONFIG names.  Raises ConfigError if it names none.

    It is an environment variable and not an Airflow Variable: Dag files are parsed every few seconds, and reading a
    Variable there would query the database each time (AIR003).
    """
    if name := os.environ.get(CONFIG_VARIABLE):
        return Path(name)
    raise ConfigError(
        f"{CONFIG_VARIABLE} names no file",
        "set it to your mm2.properties for the scheduler, the Dag processor, workers, triggerer and API server",
    )


def read_configuration(connections: AirflowResolver = stand_in) -> Configuration:
    """Return the configuration that Airflow works from; a task resolves connections, a Dag file does not.

    Raises ConfigError without the frames below: Airflow shows a Dag file's error with its traceback, and people must
    see the one line that says what is wrong.
    """
    try:
        return load(configuration_path(), airflow=connections)
    except ConfigError as error:
        raise error.with_traceback(None) from None


def flows_by_dag(configuration: Configuration, kind: str = "replicate") -> Mapping[str, FlowSettings]:
    """Return the enabled flows by the id of their Dag of one kind, in the order of the file.

    Flows that another engine copies have only those that change nothing of it.

    Cycles, failovers and pages have also the flows that bring clients home from topics with other names, `B.home->A`.
    Raises ConfigError if two flows would share an id: one of them would silently be missing.
    """
    flows: dict[str, FlowSettings] = {}
    for flow in (*configuration.enabled_flows, *(ways_home(configuration) if kind in HOMEWARD else ())):
        if flow.observed and kind not in OBSERVING:
            continue
        dag_id = dag_id_of(kind, flow.state_alias, flow.target.alias)
        if dag_id in flows:
            raise ConfigError(
                f"{configuration.path}: {flows[dag_id].name} and {flow.name} would both be Dag {dag_id}",
                "rename one of the aliases: they may not differ in punctuation only",
                file=str(configuration.path),
                dag_id=dag_id,
            )
        flows[dag_id] = flow
    return flows


def dag_id_of(kind: str, source: str, target: str) -> str:
    """Return `replicate__A__B`; each character other than a letter, digit or underscore becomes an underscore."""
    return "__".join([kind, *(re.sub(r"\W", "_", alias, flags=re.ASCII) for alias in (source, target))])


def slug(dag_id: str) -> str:
    """Return the name of a flow in an address: its Dag's id without the kind of Dag."""
    return dag_id.partition("__")[2]

"""One Dag for people: where a consumer group would go on at the other side of a flow.  Changes nothing."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from twinlog.airflow.flows import read_configuration
from twinlog.airflow.retries import OUR_TASKS
from twinlog.airflow.tasks import translation
from twinlog.config.flow.settings import Configuration


def translate_group(configuration: Configuration) -> DAG:
    """Return the Dag: one task, started by hand with a form."""
    with DAG(
        "translate_group",
        schedule=None,
        params=translation.form(configuration.enabled_flows),
        default_args=OUR_TASKS,
        tags=["twinlog"],
        description="Where a consumer group goes on at the other side",
        doc_md=translation.DOC,
    ) as dag:

        @task
        def translate() -> Any:
            """Translate the groups of the form, exactly."""
            return translation.translate_group()

        translate()
    return dag


configured = read_configuration()
if configured.enabled_flows:
    globals()["translate_group_dag"] = translate_group(configured)

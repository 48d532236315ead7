"""The Dag for people who ask where a consumer group would go on at the other side of a flow.  Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import DAG

from twinlog.airflow.dags.common import calls, dag_by_hand
from twinlog.airflow.form import CHOSEN
from twinlog.airflow.tasks import translation
from twinlog.config.flow.settings import FlowSettings


def by_hand(dag_id: str, flows: Sequence[FlowSettings]) -> DAG:
    """Return the Dag: one task."""
    what = "Where a consumer group goes on at the other side"
    with dag_by_hand(dag_id, flows, translation.PARAMS, what, translation.DOC) as dag:
        calls("translate", translation.translate_group, CHOSEN, "Translate the groups of the form, exactly.")
    return dag

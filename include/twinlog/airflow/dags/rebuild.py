"""The Dag that copies a topic again: started by hand, never scheduled.  The flow's next cycles copy the records."""

from __future__ import annotations

from collections.abc import Sequence

from airflow.sdk import DAG, chain

from twinlog.airflow.dags.common import calls, dag_by_hand
from twinlog.airflow.form import CHOSEN
from twinlog.airflow.tasks import rebuilding
from twinlog.config.flow.settings import FlowSettings

TEXT = """\
### Make the copy of a topic anew

Says what would be deleted and what can be copied again; refuses it if it is not confirmed; does it. See docs/topics.md.
"""


def by_hand(dag_id: str, flows: Sequence[FlowSettings]) -> DAG:
    """Return the Dag."""
    what = "Delete the copy of one topic and copy it anew"
    with dag_by_hand(dag_id, flows, rebuilding.PARAMS, what, TEXT) as dag:
        chain(
            calls(
                "plan",
                rebuilding.plan,
                CHOSEN,
                "Say what would be deleted, what can be copied again, and who reads the copy.",
            ),
            calls(
                "do",
                rebuilding.do,
                CHOSEN,
                "Delete the copy, create it again, and remember the positions of its readers.",
            ),
        )
    return dag

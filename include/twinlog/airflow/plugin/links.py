"""Where a flow's page is, for Dags that lead to it, and the button of a task in Airflow's UI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from twinlog.airflow.flows import BY_HAND, dag_id_of, slug
from twinlog.airflow.versions import conf
from twinlog.config.flow.settings import FlowSettings

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

PREFIX = "/twinlog"
TAG = "twinlog"
"""The tag of every Dag of twinlog's."""


def airflow_address() -> str:
    """Return Airflow's own address, with a slash at its end; only "/" if it is not configured."""
    return str(conf.get("api", "base_url", fallback="")).rstrip("/") + "/"


def dags_address() -> str:
    """Return the address below which Airflow shows twinlog's Dags, with what their ids begin with.

    Only the API server can ask: the prefix stands in the user's own Dag file, and in Airflow's database.
    """
    from airflow.models.dag import DagTag
    from airflow.utils.session import create_session

    ours = DagTag.name == TAG, DagTag.dag_id.endswith(BY_HAND[0])
    with create_session() as session:
        found = [dag_id for (dag_id,) in session.query(DagTag.dag_id).filter(*ours)]
    prefix = min(found, key=len, default="").removesuffix(BY_HAND[0])
    return f"{airflow_address()}dags/{quote(prefix)}"


def page_of(flow: str) -> str:
    """Return the address of the page of a flow, by its name."""
    source, _, target = flow.partition("->")
    return f"{airflow_address()}{PREFIX.strip('/')}/flow/{slug(dag_id_of('', source, target))}"


def link_in_text(flow: FlowSettings) -> str:
    """Return the sentence that leads from a Dag's text to the flow's page."""
    name = f"{flow.state_alias} → {flow.target.alias}"
    return f"\n[Whether it is ready, and how {name} stands now]({page_of(flow.name)})\n"


class FlowPageLink(BaseOperatorLink):  # type: ignore[misc]
    """The button of a task of a flow's Dag."""

    name = "Flow page"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the address of the page of the task's flow."""
        return page_of(str(getattr(operator, "flow", "")))

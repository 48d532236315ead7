"""The ways from a Dag to the page of its flow."""

import pytest
from seen_flow import FLOW

pytestmark = pytest.mark.airflow


def test_text_and_button_lead_to_the_flows_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """At Airflow's own address, by the name that the pages know."""
    from twinlog.airflow.flows import slug
    from twinlog.airflow.operators.copy import COPY
    from twinlog.airflow.operators.spark_job import SparkStepOperator
    from twinlog.airflow.plugin.links import FlowPageLink, link_in_text

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    task = SparkStepOperator(task_id="copy", step=COPY, flow=FLOW.name)
    address = "https://airflow.example/team/twinlog/flow/A__B"
    assert address == FlowPageLink().get_link(task, ti_key=None)
    assert f"]({address})" in link_in_text(FLOW)
    assert "A__B" == slug("replicate__A__B")
    assert [FlowPageLink] == [type(it) for it in task.operator_extra_links]

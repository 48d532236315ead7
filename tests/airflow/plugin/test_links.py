"""The ways from a Dag to the page of its flow."""

import subprocess
import sys
from pathlib import Path

import pytest
from seen_flow import FLOW

from twinlog.lab.demo.airflow_instance import AirflowInstance

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


def test_the_pages_know_what_the_names_of_dags_begin_with(tmp_path: Path) -> None:
    """From Airflow's database, once it has parsed them."""
    config, dags = tmp_path / "mm2.properties", tmp_path / "dags"
    config.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    )
    dags.mkdir()
    (dags / "own.py").write_text(
        "from twinlog.airflow import flow_dags\n\nglobals().update(flow_dags(prefix='dr_'))  # airflow DAG\n"
    )
    airflow = AirflowInstance(tmp_path / "airflow", config, dags=dags)
    airflow.home.mkdir()
    airflow.command("db", "migrate", timeout_s=400)
    asks = "from twinlog.airflow.plugin.links import dags_address; print(dags_address())"
    told = []
    for _ in range(2):
        command = [sys.executable, "-c", asks]
        environment = {**airflow.environment, "AIRFLOW__API__BASE_URL": "http://a"}
        told.append(subprocess.check_output(command, env=environment, text=True).splitlines()[-1])
        airflow.command("dags", "reserialize")
    assert ["http://a/dags/", "http://a/dags/dr_"] == told

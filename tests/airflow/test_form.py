"""What a Dag shows people."""

from dataclasses import replace

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)

pytestmark = pytest.mark.airflow


def test_the_page_of_a_dag_shows_no_token() -> None:
    """It names the Connect server; whoever may look at a Dag may not use Spark."""
    from twinlog.airflow.cycle import describe_flow

    ends = [
        ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),))) for alias in "AB"
    ]
    flow = FlowSettings(*ends)
    master = "sc://spark:15002/;use_ssl=true;token=geheim"
    page = describe_flow(replace(flow, copy=replace(flow.copy, spark_master=master)))

    assert "| Spark | `sc://spark:15002/` |" in page
    assert "geheim" not in page
    assert "asset `twinlog://B/`" in page

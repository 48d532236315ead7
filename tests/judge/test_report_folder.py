"""Reports are kept by run, a bounded number of them."""

from dataclasses import replace

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.tiers import GateSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.judge.data_docs import new_report, reports_folder


@pytest.fixture
def flow(tmp_path):
    ends = [ClusterSettings(alias, "h:1", ConnectionSettings(alias, (("h", 1),))) for alias in "AB"]
    return FlowSettings(*ends, gate=GateSettings(reports=tmp_path, reports_kept=2))


def test_the_newest_reports_are_kept(flow):
    """Each in a folder named by time and run."""
    for second in range(4):
        new_report(flow, "validate", f"scheduled__{second}:00+00:00", second * 1000)
    names = sorted(it.name for it in reports_folder(flow, "validate").iterdir())
    assert [
        "19700101T000002.000Z-scheduled__2_00_00_00",
        "19700101T000003.000Z-scheduled__3_00_00_00",
    ] == names


def test_kinds_and_flows_do_not_count_together(flow):
    """A busy flow does not push out another's reports."""
    other = replace(flow, source=replace(flow.source, alias="C"))
    for each in (flow, other):
        for kind in ("validate", "gate"):
            new_report(each, kind, "run", 0)
    assert 4 == len(list(flow.gate.reports.glob("*/*/*")))

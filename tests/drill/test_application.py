"""A drill tries what an application may do on the target, where its login is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from drill_stage import Stage
from recovery_world import COPY

from twinlog.config.flow.settings import FailoverSettings, FlowSettings
from twinlog.drill.application import login_file, read_as, require_met
from twinlog.drill.reading import First
from twinlog.errors import ClusterRefused, ConfigError
from twinlog.formats.ledger.recovery import DrillState


@pytest.fixture
def with_logins(flow: FlowSettings, tmp_path: Path) -> FlowSettings:
    """A flow whose folder has a login for `billing`."""
    (tmp_path / "billing.properties").write_text("security.protocol = SASL_PLAINTEXT\n")
    return replace(flow, failover=FailoverSettings(drill_clients=tmp_path))


class TestDrill:
    def test_reads_as_the_application_from_where_its_group_goes_on(self, stage: Stage):
        """And says how many groups it did that for."""
        stage.logins["billing"] = "User:billing"
        report = stage.drill()
        assert DrillState.PASSED is report.state
        assert {"billing": {COPY: 3}} == {it: stage.asked[it] for it in stage.logins}
        assert "1 of them also by their application's login" in step(report, "read")

    def test_one_that_is_refused_fails_the_drill(self, stage: Stage):
        """The line names user, right and topic; the clones are gone."""
        stage.logins["billing"] = ClusterRefused("User:billing may not READ group billing of B")
        report = stage.drill()
        assert (DrillState.FAILED, 1) == (report.state, report.exit_code)
        assert "User:billing may not READ group billing of B" in report.message
        assert set() == stage.clones


def step(report, name: str) -> str:
    return next(it.message for it in report.steps if it.name.value == name)


class TestLoginFile:
    def test_is_that_of_the_group(self, with_logins: FlowSettings, flow: FlowSettings):
        """A group without a file, or with a name that leads elsewhere, has none."""
        folder = with_logins.failover.drill_clients
        assert [folder / "billing.properties", None, None, None, None] == [
            login_file(with_logins, "billing"),
            login_file(with_logins, "audit"),
            login_file(with_logins, "../billing"),
            login_file(with_logins, "x" * 300),
            login_file(flow, "billing"),
        ]

    def test_that_cannot_be_used_is_a_mistake_in_the_configuration(self, with_logins: FlowSettings):
        """It names the file, and what is missing."""
        with pytest.raises(ConfigError, match=r"billing\.properties.*sasl"):
            read_as(with_logins, "billing", {COPY: 0})


class TestMet:
    def test_each_partition_needs_a_record_or_its_end(self):
        """What cannot be read is named with the user."""
        require_met({COPY: 0}, {COPY: First(None, 0.1)}, "User:billing", "B")
        for met, why in (
            ({}, "no record within 30 s"),
            ({COPY: First(None, 0.1, "out of range")}, "out of range"),
        ):
            with pytest.raises(ClusterRefused, match=f"User:billing cannot read A.orders-0 of B: {why}"):
                require_met({COPY: 0}, met, "User:billing", "B")

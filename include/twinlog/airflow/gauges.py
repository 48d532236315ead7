"""Report the results of checks as Airflow metrics: StatsD or OpenTelemetry, as the operator has configured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow.sdk.observability.stats import Stats

from twinlog.checks.risk import greatest

if TYPE_CHECKING:
    from twinlog.checks.check import CheckResult
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.gate.answer import GateResult
    from twinlog.monitoring.validate import ValidationResult


def gauge_checks(flow: FlowSettings, result: ValidationResult) -> None:
    """Report how many checks of a cycle failed, by severity.

    The flow's name is part of the metric's name, because plain StatsD drops tags.
    """
    for severity, count in failed_by_severity(result.checks).items():
        Stats.gauge(f"twinlog.{flow_name(flow)}.failed_checks.{severity}", count)


def gauge_gate(flow: FlowSettings, result: GateResult) -> None:
    """Report whether the gate was ready (1 or 0), its blocking checks, and the age of the oldest record at risk.

    If that age is unknown, and no known one is over its RPO, no number is sent: 0 would look good.
    """
    name = f"twinlog.{flow_name(flow)}.gate"
    Stats.gauge(f"{name}.ready", int(result.ready))
    Stats.gauge(f"{name}.blocking_checks", len(result.blocking))
    strictest = min((tier.rpo_seconds for tier in flow.tiers), default=0)
    oldest = greatest((it.seconds for it in result.topics), within=strictest)
    if oldest is not None:
        Stats.gauge(f"{name}.at_risk_seconds", oldest)


def failed_by_severity(checks: Iterable[CheckResult]) -> dict[str, int]:
    """Count failed checks; a severity without any is 0."""
    counts = {"critical": 0, "warning": 0}
    for check in checks:
        counts[check.severity.value] += not check.passed
    return counts


def flow_name(flow: FlowSettings) -> str:
    """Return the name of a flow in metrics."""
    return flow.name.replace("->", "__")

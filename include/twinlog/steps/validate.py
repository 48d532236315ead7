"""Step `validate`: judge every partition of the flow after a cycle.  Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.cluster.clusters import Clusters
from twinlog.config.settings import FlowSettings
from twinlog.quality.checks import PARTITION_CHECKS, Severity
from twinlog.quality.suites import CheckResult, run_checks
from twinlog.steps.discovery import Discovery
from twinlog.steps.survey import Survey, survey


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """`success` is false when a check of severity critical failed; warnings are only listed."""

    flow: str
    success: bool
    partitions: int
    checks: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that did not pass, of either severity."""
        return tuple(check for check in self.checks if not check.passed)


def run(flow: FlowSettings, clusters: Clusters) -> ValidationResult:
    """Check counts by the map, progress, lag, parity and ranges of every partition.

    Raises ClusterUnreachable, ClusterRefused, and FormatError for state that cannot be read; a failed check is
    an answer, not an error.
    """
    return judge(flow, survey(flow, clusters))


def judge(flow: FlowSettings, seen: Survey) -> ValidationResult:
    """Judge what was seen."""
    checks = (nothing_blocked(seen.discovery), *run_checks(PARTITION_CHECKS, seen.rows))
    success = all(check.passed for check in checks if check.severity is Severity.CRITICAL)
    return ValidationResult(flow.name, success, len(seen.rows), checks)


def nothing_blocked(discovery: Discovery) -> CheckResult:
    """Say which topics are not copied at all, and why."""
    blocking = [problem for problem in discovery.problems if problem.blocking]
    names = sorted({problem.topic for problem in blocking})
    message = "; ".join(f"{problem.message}; {problem.hint}" for problem in blocking)
    return CheckResult(
        name="nothing-blocked",
        severity=Severity.CRITICAL,
        passed=not blocking,
        observed=", ".join(names) or "as expected",
        expected="no topic of the flow is blocked",
        message=message or f"nothing stands against any of {len(discovery.topics)} topics",
    )

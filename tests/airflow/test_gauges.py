"""Checks as metrics."""

from twinlog.airflow.gauges import failed_by_severity
from twinlog.quality.checks import CheckResult, Severity


def test_failed_checks_are_counted_by_severity() -> None:
    """A severity without any is 0, so that an alarm goes off again."""
    checks = [
        CheckResult(name, severity, passed, "", "", "")
        for name, severity, passed in (
            ("a", Severity.CRITICAL, True),
            ("b", Severity.WARNING, False),
            ("c", Severity.WARNING, False),
        )
    ]
    assert {"critical": 0, "warning": 2} == failed_by_severity(checks)

"""Step `validate`: judge every partition and topic of the flow after a cycle.  Changes nothing.

`run` judges in plain Python, which is cheap enough for every cycle.  If the cycle copied something or a check failed,
the Dag lets Great Expectations judge the same facts by the same suites (`judge_with_pages`), and keeps its Data Docs.
The gate judges the same facts of topics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from twinlog import clock
from twinlog.checks import evaluate
from twinlog.checks.check import CheckResult, Row, Severity, Suite
from twinlog.checks.cycle_suites import FLOW, PARTITIONS, TOPICS
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.judge.rows import flow_row, holders_named, nothing_blocked, partition_rows, topic_rows
from twinlog.topics.snapshot import FlowSnapshot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """`success` is false if a check of severity critical failed; warnings are only listed.

    `data_docs` is the page of Great Expectations, "" if it was not asked.
    """

    flow: str
    success: bool
    partitions: int
    checks: tuple[CheckResult, ...]
    data_docs: str = ""

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Return the checks that did not pass, of either severity."""
        return tuple(check for check in self.checks if not check.passed)


def run(flow: FlowSettings, clusters: Clusters) -> ValidationResult:
    """Check counts by the map, progress, lag, parity, ranges, replicas and retention.

    Raises as `observe`.  A failed check is an answer, not an error.
    """
    return judge(flow, observe(FlowSnapshot(flow, clusters)))


def rows_of(flow: FlowSettings, facts: FlowFacts) -> tuple[tuple[Suite, tuple[Row, ...]], ...]:
    """Make the rows of every suite.  Pure."""
    return (
        (PARTITIONS, partition_rows(flow, facts)),
        (TOPICS, topic_rows(flow, facts)),
        (FLOW, (flow_row(flow, facts),)),
    )


def judge(flow: FlowSettings, facts: FlowFacts) -> ValidationResult:
    """Judge the facts in plain Python."""
    results = [result for suite, rows in rows_of(flow, facts) for result in evaluate.judge(suite, rows)]
    return _result(flow, facts, results)


def _result(
    flow: FlowSettings, facts: FlowFacts, results: Iterable[CheckResult], page: str = ""
) -> ValidationResult:
    checks = (nothing_blocked(facts), *holders_named(results, facts))
    success = all(check.passed for check in checks if check.severity is Severity.CRITICAL)
    return ValidationResult(flow.name, success, len(facts.partitions), checks, page)


def judge_with_pages(flow: FlowSettings, facts: FlowFacts, run_id: str) -> ValidationResult:
    """Judge by Great Expectations, and keep its Data Docs in the flow's reports folder.

    If the folder cannot be written to, only the pages are missing, not the verdict.
    """
    from twinlog.checks.data_docs import new_report, write_data_docs
    from twinlog.checks.great_expectations import validate

    validated = [validate(suite, rows) for suite, rows in rows_of(flow, facts)]
    try:
        folder = new_report(flow, "validate", run_id, clock.now_ms())
        page = str(write_data_docs(folder, f"{flow.name}, cycle {run_id}", validated))
    except OSError as error:
        log.warning("Data Docs cannot be written (twinlog.reports.folder): %s", error)
        page = ""
    return _result(flow, facts, (it for one in validated for it in one.results), page)

"""Step `validate`: judge every partition and topic of the flow after a cycle.  Changes nothing.

`run` judges in plain Python, which is cheap enough for every cycle.  If the cycle copied something or a check failed,
the Dag lets Great Expectations judge the same rows by the same table (`judge_with_pages`), and keeps its Data Docs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.judge import check
from twinlog.judge.check import CheckResult, Judged, Severity, Use, Validator
from twinlog.judge.rows import rows_of
from twinlog.judge.table import asked
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
    data_docs: str

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """Return the checks that did not pass, of either severity."""
        return tuple(check for check in self.checks if not check.passed)


def run(flow: FlowSettings, clusters: Clusters) -> ValidationResult:
    """Check counts by the map, progress, lag, parity, ranges, replicas and retention.

    Raises as `observe`.  A failed check is an answer, not an error.
    """
    return judge(flow, observe(FlowSnapshot(flow, clusters)))


def judge(flow: FlowSettings, facts: FlowFacts) -> ValidationResult:
    """Judge the facts in plain Python."""
    return _result(flow, facts, _judged(flow, facts, check.judge))


def _judged(flow: FlowSettings, facts: FlowFacts, by: Validator) -> Sequence[Judged]:
    rows = rows_of(flow, facts, Use.CYCLE)
    return [by(suite, rows[suite.name]) for suite in asked(Use.CYCLE, observed=flow.observed)]


def _result(
    flow: FlowSettings, facts: FlowFacts, judged: Sequence[Judged], page: str = ""
) -> ValidationResult:
    checks = tuple(result for one in judged for result in one.results)
    success = all(check.passed for check in checks if check.severity is Severity.CRITICAL)
    return ValidationResult(flow.name, success, len(facts.partitions), checks, page)


def judge_with_pages(flow: FlowSettings, facts: FlowFacts, run_id: str) -> ValidationResult:
    """Judge by Great Expectations, and keep its Data Docs in the flow's reports folder.

    If the folder cannot be written to, only the pages are missing, not the verdict.
    """
    from twinlog.judge.data_docs import new_report, write_data_docs
    from twinlog.judge.great_expectations import validate

    judged = _judged(flow, facts, validate)
    try:
        folder = new_report(flow, "validate", run_id, clock.now_ms())
        page = str(write_data_docs(folder, f"{flow.name}, cycle {run_id}", judged))
    except OSError as error:
        log.warning("Data Docs cannot be written (twinlog.reports.folder): %s", error)
        page = ""
    return _result(flow, facts, judged, page)

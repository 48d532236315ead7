"""Step `validate`: hold counts, lag, ranges and partition parity against what they should be.

Reads both clusters and the state; changes nothing.  A check that fails is an answer, not an error.
"""

from __future__ import annotations

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.monitoring import validate
from twinlog.monitoring.validate import ValidationResult


def run(flow: FlowSettings, clusters: Clusters, *, pages_of: str | None = None) -> ValidationResult:
    """Judge every partition and topic in plain Python.

    With `pages_of`, a run id, Great Expectations judges the same rows by the same suites, and keeps its Data Docs.
    """
    facts = validate.see(flow, clusters)
    return (
        validate.judge(flow, facts) if pages_of is None else validate.judge_with_pages(flow, facts, pages_of)
    )

"""Step `validate`: compare counts, lag, ranges and partition parity with what they should be.

The step reads both clusters and the state, and changes nothing. A check that fails is a result, not an error.
"""

from __future__ import annotations

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.facts.observe import observe
from twinlog.judge import validate
from twinlog.judge.validate import ValidationResult
from twinlog.topics.snapshot import FlowSnapshot


def run(flow: FlowSettings, clusters: Clusters, run_id: str, *, copied: bool) -> ValidationResult:
    """Judge every partition and topic.

    If something was `copied` or a check failed, Great Expectations judges the same rows by the same suites, and keeps
    its Data Docs under `run_id`. Its import costs seconds, which an idle cycle saves.
    """
    facts = observe(FlowSnapshot(flow, clusters))
    result = validate.judge(flow, facts)
    return validate.judge_with_pages(flow, facts, run_id) if copied or result.failed else result

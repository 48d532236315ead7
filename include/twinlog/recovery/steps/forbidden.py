"""Find what already forbids a planned failover, before anything is stopped for it.

The gate's step asks in full, once the steps before it have copied, placed and proved the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.accepted import Amount
from twinlog.gate import ask
from twinlog.gate.answer import GateCheck
from twinlog.gate.ask import GateFacts, GateRequest
from twinlog.judge.check import Mode
from twinlog.judge.observed import OBSERVED
from twinlog.topics.discovery import ProblemCode, waiting_for_a_person
from twinlog.visible import listed

NO_STEP_MENDS = frozenset({
    *("audit-equal", "no-gaps", "nothing-deleted-early", "nothing-expired-uncopied", "copy-not-cut-off"),
    *("nothing-copied-twice", "downstream-counted-once", "map-whole", "map-known", "map-not-beyond-progress"),
    *("progress-within-source", "progress-never-goes-back", "group-same-record", "group-not-ahead"),
    *("replication-factor", "min-insync-replicas", "retention-time", "retention-size", "record-size"),
    *("cleanup-policy", *(check.name for check in OBSERVED)),
})
"""Checks that neither copying, placing and proving nor a broker that comes back makes hold: they want a person."""

OF_AN_ENGINE = frozenset({"group-not-ahead", "map-known"})
"""Those that hold once the engine which copies has stopped: positions are exact then, and groups are placed by them."""


def known_to_forbid(
    flow: FlowSettings, clusters: Clusters, seen: GateFacts | None = None
) -> tuple[GateCheck, ...]:
    """Return the checks that fail already, whatever the steps before the gate do.

    What somebody has accepted forbids nothing, and producers may write meanwhile.  `seen` is what was read of both
    clusters just now, if it was.  Raises ClusterUnreachable and ClusterRefused.
    """
    answer = ask.run(flow, clusters, GateRequest(Mode.PLANNED, still_writing=True), seen=seen)
    problems = answer.facts.problems
    stuck = {problem.topic for problem in problems if problem.code is ProblemCode.LEFT_BEHIND}
    # A topic that the source hides may be hidden by a denial: fencing waits until it can be watched.
    stuck |= {
        problem.topic
        for problem in waiting_for_a_person(flow, problems)
        if problem.code is not ProblemCode.SOURCE_REFUSED
    }
    lasting = NO_STEP_MENDS - OF_AN_ENGINE if flow.observed else NO_STEP_MENDS
    return tuple(
        check
        for check in answer.result.checks
        if check.blocks
        and (
            check.name in lasting or (check.name == "nothing-blocked" and stuck.intersection(check.subjects))
        )
    )


def amounts_of(checks: Iterable[GateCheck]) -> tuple[Amount, ...]:
    """Return what stands against each subject, for a person to accept.  Pure."""
    return tuple(amount for check in checks for amount in check.short)


def told(checks: Sequence[GateCheck]) -> str:
    """Name checks that forbid a failover, and say why; "" if none does.  Pure."""
    return f"{listed([check.name for check in checks])}: {checks[0].message}" if checks else ""

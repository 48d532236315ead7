"""From what the checks said to one answer: ready or not, with what was waived by whom.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.checks.check import CheckResult, Severity
from twinlog.checks.gaps import GapReport
from twinlog.checks.risk import TopicAtRisk
from twinlog.checks.unproved import UnprovedCount
from twinlog.formats.ledger.gate import Waiver
from twinlog.gate.suites.suites import AGES, Fact, Mode


@dataclass(frozen=True, slots=True)
class WaivedBy:
    """A waiver that was counted, or that would have been had it not expired."""

    check: str
    subject: str
    reason: str
    by: str
    until_ms: int
    expired: bool


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One check of the gate; `age_seconds` is how old what it looked at is, None when there is nothing to look at.

    `waived` names who answers for going on although it failed; a check that passed needs nobody.
    """

    name: str
    severity: Severity
    passed: bool
    observed: str
    expected: str
    message: str
    age_seconds: float | None
    subjects: tuple[str, ...] = ()
    waived: tuple[WaivedBy, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether it keeps the gate from being ready."""
        return self.severity is Severity.CRITICAL and not self.passed and not self.waived


@dataclass(frozen=True, slots=True)
class GroupAtRisk:
    """How many records a group would read again; None when nobody knows."""

    group: str
    duplicates: int | None


@dataclass(frozen=True, slots=True)
class Timing:
    """A part of a failover that the gate did now without changing anything, and the seconds it took."""

    part: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CoverageOf:
    """How much of a topic has been proved equal, and how old the oldest audit of its partitions is.

    `percent` is proved of the `comparable` records, those that both sides still hold, rounded down; 0 where the copy
    holds others only, None where it holds none.  `unproved` are all that are not proved, by reason.
    """

    topic: str
    records: int
    proved: int
    differences: int
    age_seconds: float | None
    comparable: int = 0
    percent: int | None = None
    unproved: tuple[UnprovedCount, ...] = ()


@dataclass(frozen=True, slots=True)
class GateResult:
    """The answer of the gate: `ready` when no critical check failed unwaived.

    `still_writing`: producers had not been stopped, and it was not asked for.  `waivers` are all that the ledger
    holds, expired ones too, `gaps` all gaps with their states; `blocking` the names of the checks that forbid a
    failover.  `rehearsed` is what is known of the time a failover takes: twinlog's own part, not the restart of
    clients.
    """

    flow: str
    mode: Mode
    ready: bool
    at_ms: int
    still_writing: bool
    checks: tuple[GateCheck, ...]
    waivers: tuple[WaivedBy, ...]
    topics: tuple[TopicAtRisk, ...] = ()
    groups: tuple[GroupAtRisk, ...] = ()
    coverage: tuple[CoverageOf, ...] = ()
    gaps: tuple[GapReport, ...] = ()
    rehearsed: tuple[Timing, ...] = ()
    state_age_seconds: float | None = None
    source_cluster_id: str = ""
    target_cluster_id: str = ""

    @property
    def blocking(self) -> tuple[str, ...]:
        """The checks that forbid a failover."""
        return tuple(check.name for check in self.checks if check.blocks)

    @property
    def waived(self) -> tuple[str, ...]:
        """The checks that failed and were waived."""
        return tuple(check.name for check in self.checks if check.waived)


def weigh(
    results: Sequence[CheckResult],
    waivers: Iterable[Waiver],
    ages: Mapping[Fact, float | None],
    now_ms: int,
) -> tuple[GateCheck, ...]:
    """Give each result its age, and each failed one the waivers that cover it."""
    counted = [it for it in waivers if it.until_ms > now_ms]
    return tuple(
        GateCheck(
            name=result.name,
            severity=result.severity,
            passed=result.passed,
            observed=result.observed,
            expected=result.expected,
            message=result.message,
            age_seconds=ages.get(AGES.get(result.name, Fact.NOW)),
            subjects=result.subjects,
            waived=() if result.passed else covering(result, counted, now_ms),
        )
        for result in results
    )


def covering(result: CheckResult, waivers: Iterable[Waiver], now_ms: int) -> tuple[WaivedBy, ...]:
    """Return the waivers that together cover everything in which a check failed; none when one thing is left."""
    of_check = [it for it in waivers if it.check == result.name]
    whole = [it for it in of_check if not it.subject]
    if whole:
        return tuple(waived_by(it, now_ms) for it in whole)
    by_subject = {it.subject: it for it in of_check}
    if result.subjects and set(result.subjects) <= set(by_subject):
        return tuple(waived_by(by_subject[subject], now_ms) for subject in result.subjects)
    return ()


def waived_by(waiver: Waiver, now_ms: int) -> WaivedBy:
    """Show a waiver."""
    expired = waiver.until_ms <= now_ms
    return WaivedBy(waiver.check, waiver.subject, waiver.reason, waiver.by, waiver.until_ms, expired)


def is_ready(checks: Iterable[GateCheck]) -> bool:
    """Whether nothing forbids a failover; a gate without a check has not looked, and is not ready."""
    seen = list(checks)
    return bool(seen) and not any(check.blocks for check in seen)


def not_checked(names: Iterable[tuple[str, Severity, str]], why: str) -> tuple[CheckResult, ...]:
    """Fail checks that could not be made: name, severity and what they expect of each."""
    return tuple(
        CheckResult(name, severity, False, "not checked", expected, f"not checked: {why}")
        for name, severity, expected in names
    )

"""Turn the results of the checks into one answer: ready or not, which failures were accepted by whom, and timings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twinlog.audit.coverage import PartitionCoverage, UnprovedCount, by_topic, total
from twinlog.facts.gaps import GapReport
from twinlog.formats.ledger.accepted import Accepted, Amount, Offence, amounts, covering, not_enough
from twinlog.judge.at_risk import TopicAtRisk
from twinlog.judge.check import NOT_APPLICABLE, CheckResult, Mode, Seen, Severity
from twinlog.judge.table import CHECKS
from twinlog.observe.observed_copy import ObservedCopy
from twinlog.visible import listed, singular


@dataclass(frozen=True, slots=True)
class WaivedBy:
    """Tell what a person has accepted; it counted, or would have counted if it had not expired.

    It covers what is short by at most `up_to` together (None: by anything), and `not_known` rows of which that is not
    known.  `known_by` says how the person is known.  A lost range begins at `first_offset`, and `up_to` is its last.
    """

    check: str
    subject: str
    reason: str
    by: str
    until_ms: int | None
    expired: bool
    known_by: str
    partitions: str
    up_to: int | None
    not_known: int | None
    first_offset: int | None


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One check of the gate.

    `age_seconds` is the age of the facts that the check judged, None if there were none.  `waived` names the people
    who answer for going on although the check failed; it is empty for a check that passed.  `short` says of each
    subject how far it is from what the failed check asks.
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
    short: tuple[Amount, ...] = ()

    @property
    def applies(self) -> bool:
        """Say whether there was anything to judge; a check that had nothing counts as passed, and proves nothing."""
        return self.observed != NOT_APPLICABLE

    @property
    def blocks(self) -> bool:
        """Say whether this check keeps the gate from being ready."""
        return self.severity is Severity.CRITICAL and not self.passed and not self.waived

    @property
    def warns(self) -> bool:
        """Say whether it failed, and only asks for a look."""
        return not self.passed and not self.waived and not self.blocks


@dataclass(frozen=True, slots=True)
class GroupAtRisk:
    """Tell how many records a group would read again; None if that is unknown."""

    group: str
    duplicates: int | None


@dataclass(frozen=True, slots=True)
class Timing:
    """A part of a failover that the gate has just performed without changing anything, and its duration in seconds."""

    part: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CoverageOf:
    """Tell how much of a topic has been proved equal, and the age of the oldest audit of its partitions.

    `percent` is the proved share of the `comparable` records, those that both sides still hold, rounded down.  It is 0
    if the copy holds records but none of them is comparable, and None if the copy holds no record.  `unproved` counts
    all records that are not proved, by reason.
    """

    topic: str
    records: int
    proved: int
    differences: int
    age_seconds: float | None
    comparable: int = 0
    percent: int | None = None
    unproved: tuple[UnprovedCount, ...] = ()


def coverage_by_topic(covered: Iterable[PartitionCoverage], at_ms: int) -> tuple[CoverageOf, ...]:
    """Return for each topic how much of it is proved."""
    sums = {topic: total(partitions) for topic, partitions in sorted(by_topic(covered).items())}
    return tuple(
        CoverageOf(
            topic,
            it.records,
            it.proved,
            it.differences,
            it.age_seconds(at_ms),
            it.comparable,
            it.percent,
            it.unproved,
        )
        for topic, it in sums.items()
    )


@dataclass(frozen=True, slots=True)
class GateResult:
    """The answer of the gate: `ready` if every critical check passed or was waived.

    `still_writing` says that producers had not been stopped, so the gate did not check that they had.  `waivers` are
    all waivers in the ledger, expired ones too; `gaps` are all gaps with their states.  `blocking` are the names of
    the checks that forbid a failover.  `rehearsed` is what is known of the duration of a failover: twinlog's own part,
    without the restart of clients.
    `undecided_records` lie behind open transactions of the source, and are on no target.
    `observed` is what was found in a copy that another engine makes.
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
    undecided_records: int = 0
    observed: ObservedCopy | None = None

    @property
    def headline(self) -> str:
        """Return the answer in words: what forbids a failover, and the records that are not on the target."""
        answer = "READY" if self.ready else f"NOT READY: {self._first_reason}"
        if not self.topics:
            return answer
        behind = (
            f", {self.undecided_records:,} of them behind open transactions" if self.undecided_records else ""
        )
        doubt = ", more is not known" if any(topic.records is None for topic in self.topics) else ""
        known = sum(topic.known or 0 for topic in self.topics)
        if not known and any(topic.known is None for topic in self.topics):
            return f"{answer}; how many records are missing on the target is not known"
        return singular(f"{answer}; {known:,} records are missing on the target{behind}{doubt}")

    @property
    def _first_reason(self) -> str:
        """Return the names of the first checks that forbid it, or the one reason for which none could be checked."""
        why = {check.message for check in self.checks if check.blocks}
        one = len(why) == 1 and len(self.blocking) > 1
        return why.pop().partition(" (")[0] if one else listed(self.blocking, 3)

    @property
    def blocking(self) -> tuple[str, ...]:
        """Return the names of the checks that forbid a failover."""
        return tuple(check.name for check in self.checks if check.blocks)

    @property
    def amounts(self) -> tuple[Amount, ...]:
        """Return what stands against each subject, by the checks that forbid a failover."""
        return tuple(amount for check in self.checks if check.blocks for amount in check.short)

    @property
    def waived(self) -> tuple[str, ...]:
        """Return the names of the checks that failed and were waived."""
        return tuple(check.name for check in self.checks if check.waived)


def weigh(
    results: Sequence[CheckResult],
    accepted: Iterable[Accepted],
    ages: Mapping[Seen, float | None],
    now_ms: int,
) -> tuple[GateCheck, ...]:
    """Give each result the age of its facts, and each failed result what covers it of all that was accepted."""
    given = tuple(accepted)

    def waived(result: CheckResult) -> tuple[WaivedBy, ...]:
        found = covering(given, result.name, offences_of(result), now_ms)
        return tuple(waived_by(it, now_ms) for it in found)

    def message(result: CheckResult) -> str:
        given_by = () if result.passed or waived(result) else given
        less = not_enough(given_by, result.name, offences_of(result), now_ms)
        return f"{less}. {result.message}" if less else result.message

    return tuple(
        GateCheck(
            name=result.name,
            severity=result.severity,
            passed=result.passed,
            observed=result.observed,
            expected=result.expected,
            message=message(result),
            age_seconds=ages.get(CHECKS[result.name].seen),
            subjects=result.subjects,
            waived=() if result.passed else waived(result),
            short=() if result.passed else amounts(result.name, offences_of(result)),
        )
        for result in results
    )


def offences_of(result: CheckResult) -> tuple[Offence, ...]:
    """Return the rows in which a check failed; a check that judged none is short by nobody knows what."""
    return result.offences or (Offence("", None, None),)


def waived_by(it: Accepted, now_ms: int) -> WaivedBy:
    """Show what was accepted."""
    return WaivedBy(
        check=it.check,
        subject=it.subject,
        reason=it.reason,
        by=it.by,
        until_ms=it.until_ms,
        expired=not it.counts(now_ms),
        known_by=it.known_by,
        partitions=it.partitions,
        up_to=it.up_to,
        not_known=it.not_known,
        first_offset=it.first_offset,
    )


def is_ready(checks: Iterable[GateCheck]) -> bool:
    """Say whether nothing forbids a failover; a gate without a single check has looked at nothing and is not ready."""
    seen = list(checks)
    return bool(seen) and not any(check.blocks for check in seen)


class Stopwatch:
    """A stopwatch for consecutive steps."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self.laps: tuple[Timing, ...] = ()

    def lap(self, part: str) -> None:
        """Note the time since the last lap under the name of the part that ended now."""
        now = time.monotonic()
        self.laps += (Timing(part, round(now - self._since, 3)),)
        self._since = now

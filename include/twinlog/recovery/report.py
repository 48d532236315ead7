"""The result of a failover, as people and programs see it; and as evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from twinlog.errors import ExitCode, TransientError, TwinlogError
from twinlog.formats.ledger.recovery import StepState
from twinlog.gate.suites.suites import Mode
from twinlog.jsonable import Json, to_json
from twinlog.recovery.one_sided.files import WrittenFile
from twinlog.recovery.procedure import StepName

Name = TypeVar("Name", bound=StrEnum)


class State(StrEnum):
    """Name where the flow stands at the end of a command."""

    FOLLOWING = "following"
    WAITING = "waiting"
    REFUSED = "refused"
    FAILED = "failed"
    PROMOTED = "promoted"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class StepReport(Generic[Name]):
    """The outcome of a step and the seconds it took."""

    name: Name
    state: StepState
    seconds: float
    message: str


@dataclass(frozen=True, slots=True)
class PartitionAtRisk:
    """One partition: its end on the source, that of its copy, and what is, or would be, lost.

    `upstream_end` is as last seen if the source is lost, None if it was never seen.  `at_risk_records` are known not
    to be on the target.  `estimated_records` adds what may have been written after the source was last seen, by the
    rate of the last minute before; None if nothing is to be estimated.  `behind_cut` are records of the copy behind the
    consistent cut, which lies at `cut_upstream` and `cut_downstream`; None if there is no cut.  `unseen`: the last
    cycle could not look at it, so how many records are at risk is not known.
    """

    partition: int
    upstream_end: int | None
    downstream_end: int | None
    at_risk_records: int
    estimated_records: int | None = None
    cut_upstream: int | None = None
    cut_downstream: int | None = None
    behind_cut: int | None = None
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class TopicAtRisk:
    """The partitions of one topic."""

    topic: str
    remote_topic: str
    partitions: tuple[PartitionAtRisk, ...]


@dataclass(frozen=True, slots=True)
class CutReport:
    """The consistent cut that groups were placed before: it splits no transaction of the source as of `as_of_ms`.

    `transactions` are those of which something was copied that lies behind it.  `records` lie behind it in the copies,
    and are in `files`.
    """

    as_of_ms: int
    transactions: int
    records: int
    files: tuple[WrittenFile, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A group's position on both sides; `again` is how many records it would read again, None if that is unknown."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int | None
    again: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a step, and what it says of the state of the whole.

    `refused` says that the gate or a person said no, `transient` that the trouble may go away by itself.
    """

    state: StepState
    message: str
    refused: bool = False
    exit_code: ExitCode = ExitCode.SAYS_NO
    transient: bool = False

    @property
    def ends(self) -> bool:
        """Say whether the failover goes no further now."""
        return self.state in {StepState.WAITING, StepState.FAILED}


def done(message: str) -> Outcome:
    """Return the outcome of a step that is done."""
    return Outcome(StepState.DONE, message)


def skipped(message: str) -> Outcome:
    """Return the outcome of a step that has nothing to do."""
    return Outcome(StepState.SKIPPED, message)


def waiting(message: str) -> Outcome:
    """Return the outcome of a step that waits for a person."""
    return Outcome(StepState.WAITING, message)


def failed(message: str, *, refused: bool = False, exit_code: ExitCode = ExitCode.SAYS_NO) -> Outcome:
    """Return the outcome of a step that failed."""
    return Outcome(StepState.FAILED, message, refused, exit_code)


def failed_by(error: TwinlogError) -> Outcome:
    """Return the outcome of a step that ended with an error."""
    transient = isinstance(error, TransientError)
    return Outcome(StepState.FAILED, str(error), exit_code=error.exit_code, transient=transient)


class Documented:
    """A report whose JSON document says nothing of how the process ends."""

    __slots__ = ()
    transient: bool

    @property
    def document(self) -> dict[str, Any]:
        """Return the JSON document that other programs rely on."""
        found: dict[str, Any] = to_json(self)
        return {key: it for key, it in found.items() if key not in {"exit_code", "transient"}}

    @property
    def told(self) -> Json:
        """Return what an application tells of it; a scheduler asks whether to try again."""
        return {**self.document, "transient": self.transient}


@dataclass(frozen=True, slots=True)
class FailoverReport(Documented):
    """The contract of docs/failover.md: what was done, in which state the flow is, and what it cost.

    `rto_seconds` is the time from the start of the failover to its last step, `rpo_seconds` how much of the past is
    lost: 0 if it was proved that nothing is, None if that is unknown or nothing was promoted.  `estimate` says what
    `estimated_records` rest on.  `cut` is the consistent cut, if one was asked for.
    """

    flow: str
    run: str
    mode: Mode
    state: State
    dry_run: bool
    steps: tuple[StepReport[StepName], ...]
    topics: tuple[TopicAtRisk, ...] = ()
    groups: tuple[PlacedGroup, ...] = ()
    rto_seconds: float | None = None
    rpo_seconds: float | None = None
    evidence: str = ""
    by: str = ""
    next: str = ""
    estimate: str = ""
    cut: CutReport | None = None
    exit_code: ExitCode = ExitCode.DONE
    transient: bool = False
    """Running it again may be all that is needed; not in the document."""


def at_risk(topics: tuple[TopicAtRisk, ...]) -> int:
    """Add up the records known to be at risk."""
    return sum(part.at_risk_records for topic in topics for part in topic.partitions)


def estimated(topics: tuple[TopicAtRisk, ...]) -> int | None:
    """Add up the estimates; None if there is none."""
    known = [it.estimated_records for topic in topics for it in topic.partitions]
    found = [it for it in known if it is not None]
    return sum(found) if found else None

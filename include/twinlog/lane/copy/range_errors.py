"""Make the errors that end a range: a stable code, and one line that names partition and offset."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.batches.outgoing import Poison
from twinlog.errors import TransientError, TwinlogError
from twinlog.lane.in_flight import Refused
from twinlog.protocol.errors import REFUSED_RECORDS, UNKNOWN_TOPIC, Code, code_name

SOURCE_LOST = "source-lost"
"""Code of ranges that the next cycle continues."""

NO_LEADER = "no-leader"
"""Code of ranges whose copy has no leader; the next cycle continues them."""

TOPIC_DELETED = "topic-deleted"
"""Code of ranges whose source topic is gone; the topic's discovery treats that as normal, not as an error."""


@dataclass(frozen=True, slots=True)
class RangeError:
    """An error that ends one range but not the lane's other ranges."""

    code: str
    message: str


class SourceError(Exception):
    """Report that the source cannot be read any further: what was sent is committed, then the ranges end."""


def stopped_at(name: str, offset: int, why: str, code: str = SOURCE_LOST) -> RangeError:
    """Make the error for a source that yields nothing from an upstream offset on; `name` is `topic-partition`."""
    return RangeError(code, f"{name} at upstream offset {offset}: {why}")


def source_refused(name: str, code: int) -> RangeError:
    """Make the error for a source that answers with an error that asking again does not change."""
    return RangeError("source-refused", f"{name}: the source answered {code_name(code)}")


def unreadable(name: str, error: TwinlogError) -> RangeError:
    """Make the error for an answer of the source that cannot be decoded."""
    return RangeError(error.code, f"{name}: {error}")


def topic_deleted(name: str) -> RangeError:
    """Make the error for a source topic that is gone."""
    return RangeError(TOPIC_DELETED, f"{name}: the source topic no longer exists")


def not_readable(name: str, why: TwinlogError) -> RangeError:
    """Make the error for a partition that cannot be fetched: it is gone, may not be read, or has no leader."""
    if why.code == UNKNOWN_TOPIC:
        return topic_deleted(name)
    return RangeError(
        SOURCE_LOST if isinstance(why, TransientError) else "source-refused", f"{name}: {why.message}"
    )


def recreated(name: str) -> RangeError:
    """Make the error for a source topic that was recreated after the ranges were resolved."""
    return RangeError("recreated", f"{name}: the source topic was deleted and created again meanwhile")


def out_of_range(name: str, wanted: int, begin: int) -> RangeError:
    """Make the error for a log that does not hold upstream offset `wanted`: it begins behind it, or ends before it."""
    if begin > wanted:
        gone = f"upstream offsets {wanted} to {begin - 1} were deleted before they could be copied"
        return RangeError("gap", f"{name}: {gone}")
    return RangeError("truncation", f"{name}: the source's log ends before upstream offset {wanted}")


def copy_recreated(name: str, remote_topic: str) -> RangeError:
    """Make the error for a copy recreated after the ranges were resolved: earlier copied records are not in it."""
    return RangeError("copy-recreated", f"{name}: {remote_topic} was deleted and created again meanwhile")


def diverged(name: str, at: int) -> RangeError:
    """Make the error for a source that lost copied records and grew again: from upstream `at` on, -1 unknown."""
    where = f"from upstream offset {at} on " if at >= 0 else ""
    return RangeError(
        "truncation", f"{name}: {where}the source's log no longer holds what was copied from it"
    )


def poison(name: str, record: Poison) -> RangeError:
    """Make the error for a record that does not fit the target, or a batch that cannot be read."""
    return RangeError(record.code, f"{name} at upstream offset {record.offset}: {record.reason}")


def target_refused(name: str, remote_topic: str, refusal: Refused, offsets: list[int]) -> RangeError:
    """Make the error for a batch or topic that the target will never accept; `offsets` are at fault, where known."""
    if refusal.code == Code.CORRUPT_MESSAGE and refusal.outgoing is not None:
        first = refusal.outgoing.stretches.first
        damage = "the batch does not fit its checksum: damaged in the source's log, or on the way"
        return RangeError("corrupt-batch", f"{name} at upstream offset {first}: {damage}")
    if refusal.code in REFUSED_RECORDS and refusal.outgoing is not None and not offsets:
        offsets = [refusal.outgoing.stretches.first]
    where = f"{name} at upstream offset {offsets[0]}" if offsets else name
    why = f"{where}: {remote_topic} refused it: {refusal.message} ({code_name(refusal.code)})"
    if refusal.code == Code.INVALID_TIMESTAMP:
        # The broker names the record's timestamp, and the times that it takes (LogValidator).
        named = "".join(f"; {said}" for _, said in refusal.record_errors[:1])
        why += (
            f"{named}; relax message.timestamp.before.max.ms or message.timestamp.after.max.ms of {remote_topic},"
            " or set twinlog.on.poison.record=quarantine"
        )
    return RangeError("poison-record" if refusal.code in REFUSED_RECORDS else "target-refused", why)


def no_leader(name: str, remote_topic: str, refusal: Refused, seconds: float) -> RangeError:
    """Make the error for a copy without a leader for `seconds`, so that the lane's other partitions need not wait."""
    return RangeError(
        NO_LEADER, f"{name}: {remote_topic} could not be written to for {seconds:.0f} s: {refusal.message}"
    )


def culprits(refusal: Refused) -> list[int]:
    """Return the upstream offsets of the records that a refusal names, or of a batch's only record."""
    if refusal.outgoing is None:
        return []
    offsets = [first + step for first, length in refusal.outgoing.stretches for step in range(length)]
    if len(offsets) == 1:
        return offsets
    return [offsets[index] for index, _ in refusal.record_errors if index < len(offsets)]

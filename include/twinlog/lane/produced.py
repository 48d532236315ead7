"""Hold the results of the batches that a lane has sent."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.batches.outgoing import Outgoing
from twinlog.protocol.brokers import TopicPartition


@dataclass(slots=True)
class Written:
    """One batch that the target has acknowledged, with the downstream offset of its first record.

    Values made for each batch are not frozen: creating a frozen one takes three times as long.
    """

    partition: TopicPartition
    outgoing: Outgoing
    base_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """One batch, or one partition, that the target did not take; the transaction has to be aborted.

    `outgoing` is None if even the partition could not be added to the transaction.  With `resend` the target will take
    it once its leader is found again, otherwise never.
    """

    partition: TopicPartition
    code: int
    message: str
    outgoing: Outgoing | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    resend: bool = False

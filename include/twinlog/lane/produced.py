"""What became of the batches that a lane has sent."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.batches.outgoing import Outgoing
from twinlog.protocol.brokers import TopicPartition


@dataclass(slots=True)
class Written:
    """One batch the target has acknowledged, with the downstream offset of its first record.

    Not frozen, as nothing is that is made for each batch: that takes three times as long.
    """

    partition: TopicPartition
    outgoing: Outgoing
    base_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """One batch, or one partition, that the target did not take; the transaction has to be aborted.

    `outgoing` is None when the partition could not even be added to the transaction.  With `resend` it will be
    taken when its leader is found again, otherwise never.
    """

    partition: TopicPartition
    code: int
    message: str
    outgoing: Outgoing | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    resend: bool = False

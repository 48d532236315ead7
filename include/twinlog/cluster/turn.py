"""Write state topics in a transaction that fails if somebody else has taken a turn meanwhile (lane/fence/beside.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.cluster.values import InternalRecord
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.fence import GrantedLane, write_fenced
from twinlog.lane.transaction import Writer
from twinlog.protocol.kept_brokers import KeptBrokers


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn to change a flow's state, beside its lanes, just taken."""

    brokers: KeptBrokers
    writer: Writer

    def write(self, records: Mapping[str, Sequence[InternalRecord]]) -> None:
        """Commit records, by topic, in one transaction; call this once.

        Raises FencedError if somebody has taken the next turn, and errors of the cluster; nothing is written then.  If
        the answer is lost, TransientError: the next turn settles it.
        """
        entries = [
            StateRecord(topic, record.partition, record.key, record.value)
            for topic in records
            for record in records[topic]
        ]
        with self.brokers.lent() as target:
            write_fenced(target, GrantedLane(0, self.writer), entries)

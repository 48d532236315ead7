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
class KafkaTurn:
    """A turn just taken on real brokers."""

    brokers: KeptBrokers
    writer: Writer

    def write(self, records: Mapping[str, Sequence[InternalRecord]]) -> None:
        """Write records as `twinlog.cluster.api.Turn` promises it."""
        entries = [
            StateRecord(topic, record.partition, record.key, record.value)
            for topic in records
            for record in records[topic]
        ]
        with self.brokers.lent() as target:
            write_fenced(target, GrantedLane(0, self.writer), entries)

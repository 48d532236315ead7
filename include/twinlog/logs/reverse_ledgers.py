"""Find the ledgers of reverse flows (from a flow's target to its source) among all ledgers on the source.

They are found by cluster id.  Aliases are names that each deployment chooses: a cluster that `A->B` calls B may be
called `west` by a deployment that copies from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterRefused, FormatError, TwinlogError
from twinlog.formats.ledger.reading import parse_whole
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.formats.ledger.writers import is_reverse, source_ids
from twinlog.kafka_types import ReadRecord
from twinlog.logs.log_reader import StateLog
from twinlog.policy.state_topics import ledger_topic, source_of_ledger
from twinlog.protocol.brokers import Brokers

NO_LEDGER = "no-internal-topic"
"""Code of the error for a topic that does not exist."""


@dataclass(frozen=True, slots=True)
class SourceLedger:
    """A ledger on the source and its owner: a `reverse` flow or not.

    `known` says that the ledger itself tells, and not only its topic's name.  `refused` says why it may not be read.
    """

    alias: str
    reverse: bool = False
    known: bool = False
    records: tuple[LedgerRecord, ...] = ()
    refused: str = ""

    @property
    def ledger_topic(self) -> str:
        """The ledger's topic, on the source."""
        return ledger_topic(self.alias)


def sort_ledger(
    alias: str, found: Mapping[bytes, ReadRecord], *, target_alias: str, target_cluster_id: str
) -> SourceLedger:
    """Say whether a ledger found on the source under `alias` is a reverse flow's; records in the order of its log.

    Raises FormatError for a record that cannot be read, unless the ledger certainly belongs to another flow.  Pure.
    """
    ordered = sorted(found.items(), key=lambda item: item[1].offset)
    latest = {key: record.value for key, record in ordered}
    records: list[LedgerRecord] = []
    failure: FormatError | None = None
    for key in latest:
        try:
            record = parse_whole(key, latest)
        except FormatError as error:
            failure = failure or error
            continue
        if record is not None:
            records.append(record)
    known = bool(source_ids(records) and target_cluster_id)
    reverse = is_reverse(alias, records, target_alias=target_alias, target_cluster_id=target_cluster_id)
    if failure is not None and (reverse or not known):
        raise failure
    return SourceLedger(alias, reverse, known, tuple(records))


@dataclass(slots=True)
class ReverseLedgers:
    """Read the reverse flows' ledgers for a lane, each from where its last reading stopped.  Single-threaded."""

    source: ConnectionSettings
    target_alias: str
    target_cluster_id: str
    logs: dict[str, StateLog] = field(default_factory=dict)

    def latest(self) -> Mapping[bytes, bytes | None]:
        """Return the latest committed records of all ledgers of reverse flows that exist now.

        A ledger that this user may not read is left out, unless it bears the target's name.  Raises as
        `StateLog.read`.
        """
        own = ledger_topic(self.target_alias)
        found: dict[bytes, bytes | None] = {}
        with Brokers(self.source) as source:
            seen = (name for name in source.topic_names() if source_of_ledger(name) is not None)
            for name in sorted({own, *seen}):
                log = self.logs.setdefault(name, StateLog(name, cached=True))
                try:
                    log.catch_up(source)
                except TwinlogError as error:
                    if error.code == NO_LEDGER or (name != own and isinstance(error, ClusterRefused)):
                        continue
                    raise
                records = log.records
                ledger = sort_ledger(
                    source_of_ledger(name) or "",
                    records,
                    target_alias=self.target_alias,
                    target_cluster_id=self.target_cluster_id,
                )
                if ledger.reverse:
                    found |= {key: record.value for key, record in records.items()}
        return found

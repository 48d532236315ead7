"""Ledgers of the flows that copy from a flow's target to its source, found by cluster id among all on the source.

Aliases are names that each deployment gives by itself: what `A->B` calls B may be `west` to whoever copies from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterRefused, FormatError, TwinlogError
from twinlog.formats.ledger.identity import is_reverse, source_ids
from twinlog.formats.ledger.reading import parse_whole
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.logs.log_reader import StateLog
from twinlog.policy.state_topics import ledger_topic, source_of_ledger
from twinlog.protocol.brokers import Brokers

NO_LEDGER = "no-internal-topic"
"""Code of the error for a topic that is not there."""


class Sorted(NamedTuple):
    """A ledger by whose it is: `reverse` or not, and whether it says so itself (`known`) or only by its name."""

    reverse: bool
    known: bool
    records: tuple[LedgerRecord, ...]


def sort_ledger(
    alias: str, ordered: Iterable[tuple[bytes, bytes | None]], *, target_alias: str, target_cluster_id: str
) -> Sorted:
    """Say whether a ledger found on the source under `alias` is a reverse flow's; records in the order of its log.

    Pure.  Raises FormatError for a record that cannot be read, unless the ledger is another's whatever it says.
    """
    latest = dict(ordered)
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
    return Sorted(reverse, known, tuple(records))


@dataclass(slots=True)
class ReverseLedgers:
    """The reverse flows' ledgers as a lane reads them, each time on from where it stopped.  Single-threaded."""

    source: ConnectionSettings
    target_alias: str
    target_cluster_id: str
    logs: dict[str, StateLog] = field(default_factory=dict)

    def latest(self) -> Mapping[bytes, bytes | None]:
        """Return the latest committed records of all reverse flows' ledgers there are now.

        One that this user may not read is passed over, if its name is not the target's.  Raises as `StateLog.read`.
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
                kept = sorted(log.records.items(), key=lambda item: item[1].offset)
                ordered = [(key, record.value) for key, record in kept]
                if self._sorted(name, ordered).reverse:
                    found |= dict(ordered)
        return found

    def _sorted(self, name: str, ordered: Iterable[tuple[bytes, bytes | None]]) -> Sorted:
        return sort_ledger(
            source_of_ledger(name) or "",
            ordered,
            target_alias=self.target_alias,
            target_cluster_id=self.target_cluster_id,
        )

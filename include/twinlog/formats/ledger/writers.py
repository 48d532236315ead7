"""Define the ledger records about a flow's identity, its writers, and what they did.

A ledger is named by the source's alias alone, a transactional id by both aliases.  So drivers that call one target by
two names do not fence each other, and write the same progress.  The ledger's log decides between them: the state
belongs to the flow whose claim lies first in the log (docs/decisions/0022-identity.md).  Ids stay true, while aliases
are only names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.topics import Incarnation
from twinlog.kafka_types import OfIncarnation


@dataclass(frozen=True, slots=True)
class LaneWriter(LedgerEntry):
    """The flow's lane `transactional_id` wrote the batches of `producer_id` on the target, since `since_ms`.

    Never forgotten: a cluster gives out a producer id only once, and compaction keeps it in the header of a batch.
    """

    KIND = "lane-writer"
    IDENTITY = ("producer_id",)
    producer_id: int
    transactional_id: str
    since_ms: int


@dataclass(frozen=True, slots=True)
class CopyOutcome(LedgerEntry):
    """The result of the copy of `run_id`; only the newest is kept, and only of a flow with many partitions.

    By topic and partition (as text): `copied` holds the number of records of partitions that got some, `errors` the
    reason of those that stopped.  `stopped` are the partitions that could not even be begun, as in the copy's result.
    """

    KIND = "copy-outcome"
    run_id: str
    copied: Mapping[str, Mapping[str, int]]
    errors: Mapping[str, Mapping[str, str]]
    stopped: tuple[Mapping[str, Any], ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class TakenOver(LedgerEntry):
    """The part of a copy that is MirrorMaker 2's, or another engine's, in downstream offsets.

    Records at [`compared`, `end`) were compared, and each is the source's.  Records at [`first`, `compared`) were not:
    they may be MirrorMaker 2's copies or the target's own.  `remote_topic_id` is the incarnation of the copy.  If
    `passed_over`, audits say nothing of what is twice in the compared part: nothing there is of an aborted transaction.
    """

    KIND = "taken-over"
    IDENTITY = ("topic", "remote_topic_id", "partition", "first")
    topic: str
    remote_topic_id: str
    partition: int
    first: int
    compared: int
    end: int
    at_ms: int
    passed_over: bool = False


@dataclass(frozen=True, slots=True)
class MapHole(OfIncarnation, LedgerEntry):
    """Upstream offsets [`start`, `end`) that the offset map leaves out on purpose: MirrorMaker 2 copied there."""

    KIND = "map-hole"
    IDENTITY = ("topic", "topic_id", "partition", "start")
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class FlowClaim(LedgerEntry):
    """`flow` (both aliases) copies from one cluster to another, and owns this ledger, map and progress since `at_ms`.

    Written once, behind the flow's fence: the first claim in the log counts.  Only `twinlog migrate claim` moves it;
    then `by` names a person, and `reason` their reason.
    """

    KIND = "flow-claim"
    IDENTITY = ("flow",)
    flow: str
    source_cluster_id: str
    target_cluster_id: str
    at_ms: int
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReverseFlow(LedgerEntry):
    """The flow leaves out the records of a reverse flow, whose ledger on the source is topic `ledger_topic_id`.

    Written before the first record is left out.  If that ledger is lost, it is unknown which records to leave out.
    """

    KIND = "reverse-flow"
    IDENTITY = ("ledger_topic_id",)
    ledger_topic: str
    ledger_topic_id: str
    since_ms: int


def source_ids(records: Iterable[object]) -> frozenset[str]:
    """Return the ids of the clusters that a ledger's flow copies from; none if no record tells.

    `records` are those of one ledger, with claims in the order of the log.  Releases without claims noted the cluster
    with each topic.
    """
    known = list(records)
    claim = next((it for it in known if isinstance(it, FlowClaim)), None)
    if claim is not None:
        return frozenset({claim.source_cluster_id})
    return frozenset(
        it.source_cluster_id for it in known if isinstance(it, Incarnation) and it.source_cluster_id
    )


def is_reverse(alias: str, records: Iterable[object], *, target_alias: str, target_cluster_id: str) -> bool:
    """Say whether a ledger, found on a flow's source under `alias`, belongs to a flow from the flow's target.

    Decided by the cluster's id, if both ids are known; else by the alias.
    """
    ids = source_ids(records)
    if ids and target_cluster_id:
        return target_cluster_id in ids
    return alias == target_alias


def written_as(records: Iterable[object]) -> str:
    """Return the name of the flow whose lanes wrote last; "" if no lane wrote, or none in transactions."""
    writers = [record for record in records if isinstance(record, LaneWriter)]
    newest = max(writers, key=lambda it: (it.since_ms, it.producer_id), default=None)
    return "" if newest is None else _flow_of(newest)


def names_ever(records: Iterable[object]) -> frozenset[str]:
    """Return the names of all flows whose lanes ever wrote in transactions."""
    return frozenset(_flow_of(record) for record in records if isinstance(record, LaneWriter)) - {""}


def _flow_of(writer: LaneWriter) -> str:
    """Return the name of the flow of a lane; "" if it did not write in transactions."""
    named = re.fullmatch(r"twinlog-(.+)-\d+", writer.transactional_id)
    return named[1] if named else ""

"""Ledger records about which clusters a flow is between: ids, which stay true where aliases are only names.

A ledger is named by the source's alias alone, transactional ids by both aliases.  So drivers that call one target by
two names do not fence each other, and write the same progress.  The ledger's log decides between them: the flow whose
claim lies first in it owns the state (docs/decisions/0022-identity.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import LaneWriter


@dataclass(frozen=True, slots=True)
class FlowClaim(LedgerEntry):
    """`flow` (both aliases) copies from one cluster to another, and owns this ledger, map and progress since `at_ms`.

    Written once, behind the flow's fence: the claim that lies first in the log counts.  Only `twinlog claim` moves it,
    `by` a person and for a `reason`.
    """

    KIND: ClassVar[str] = "flow-claim"
    IDENTITY: ClassVar[tuple[str, ...]] = ("flow",)
    flow: str
    source_cluster_id: str
    target_cluster_id: str
    at_ms: int
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReverseFlow(LedgerEntry):
    """The flow leaves out what a reverse flow wrote, whose ledger on the source is the topic `ledger_topic_id`.

    Noted before the first record is left out.  If that ledger goes, what is to be left out is not known any more.
    """

    KIND: ClassVar[str] = "reverse-flow"
    IDENTITY: ClassVar[tuple[str, ...]] = ("ledger_topic_id",)
    ledger_topic: str
    ledger_topic_id: str
    since_ms: int


def source_ids(records: Iterable[object]) -> frozenset[str]:
    """Return the ids of the clusters a ledger's flow copies from; none where no record of it knows.

    `records` are those of one ledger, claims in the order of the log.  Releases without claims noted the cluster with
    each topic.
    """
    known = list(records)
    claim = next((it for it in known if isinstance(it, FlowClaim)), None)
    if claim is not None:
        return frozenset({claim.source_cluster_id})
    return frozenset(
        it.source_cluster_id for it in known if isinstance(it, Incarnation) and it.source_cluster_id
    )


def is_reverse(alias: str, records: Iterable[object], *, target_alias: str, target_cluster_id: str) -> bool:
    """Say whether a ledger, found on a flow's source under `alias`, is that of a flow from the flow's target.

    By the cluster's id, wherever both are known; else by its name.
    """
    ids = source_ids(records)
    if ids and target_cluster_id:
        return target_cluster_id in ids
    return alias == target_alias


def written_as(records: Iterable[object]) -> str:
    """Return the name of the flow whose lanes wrote last; "" where no lane did, or none in transactions."""
    writers = [it for it in records if isinstance(it, LaneWriter)]
    newest = max(writers, key=lambda it: (it.since_ms, it.producer_id), default=None)
    named = re.fullmatch(r"twinlog-(.+)-\d+", newest.transactional_id) if newest is not None else None
    return named[1] if named else ""


def names_ever(records: Iterable[object]) -> frozenset[str]:
    """Return the names of all flows whose lanes ever wrote in transactions."""
    names = (
        re.fullmatch(r"twinlog-(.+)-\d+", it.transactional_id) for it in records if isinstance(it, LaneWriter)
    )
    return frozenset(it[1] for it in names if it)

"""Decide which flow owns the state on the target: one name, one source, one target cluster (docs/decisions/0022).

Transactional ids contain both aliases, but the topics with progress, map and ledger only the source's.  Drivers that
call one target by two names therefore do not fence each other, so the order in the ledger's log decides.  Before a
name copies for the first time, it writes its claim there, reads the log up to and beyond it, and goes on only if no
other claim lies before its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.reading import of_kind
from twinlog.formats.ledger.records import parse_ledger
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import FlowClaim, LaneWriter, names_ever, source_ids
from twinlog.kafka_types import ReadRecord
from twinlog.logs.log_state import UndecidedRecord

_CLAIM_KEY = b'["flow-claim"'

ANOTHER_NAME = "another-name"
SOURCE_CHANGED = "source-changed"
TARGET_CHANGED = "target-changed"


@dataclass(frozen=True, slots=True)
class Identity:
    """A flow's name (both aliases) and the ids of its two clusters; "" if an id is not known."""

    flow: str
    source_cluster_id: str
    target_cluster_id: str

    @property
    def known(self) -> bool:
        """Say whether the flow can claim a ledger: the ids of both clusters are known."""
        return bool(self.source_cluster_id and self.target_cluster_id)

    def claim(self, at_ms: int, by: str = "", reason: str = "") -> FlowClaim:
        """Return the record that claims a ledger."""
        return FlowClaim(self.flow, self.source_cluster_id, self.target_cluster_id, at_ms, by, reason)


@dataclass(frozen=True, slots=True)
class Owned:
    """The owners that a ledger names.

    `claims` are the committed claims in the order of the log.  `open_before` are the names of undecided claims before
    the first committed one.  If there are no claims, as in releases before them, `names` are the names of all lanes
    that ever wrote, and `source_ids` the clusters copied from, as far as the ledger knows them.
    """

    claims: tuple[FlowClaim, ...] = ()
    open_before: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    source_ids: frozenset[str] = frozenset()

    @classmethod
    def of(cls, records: Mapping[bytes, ReadRecord], undecided: Mapping[bytes, UndecidedRecord]) -> Owned:
        """Read the owners from a ledger's latest and undecided records.  Raises FormatError as `parse_ledger`."""
        found = ((record.offset, _claim(key, record.value)) for key, record in records.items())
        kept = sorted(((at, claim) for at, claim in found if claim is not None), key=lambda item: item[0])
        first = kept[0][0] if kept else None
        waiting = tuple(
            claim.flow
            for key, record in undecided.items()
            if (first is None or record.offset < first) and (claim := _claim(key, record.value))
        )
        claims = tuple(claim for _, claim in kept)
        if claims:
            return cls(claims, waiting)
        values = {key: record.value for key, record in records.items()}
        known = [*of_kind(values, LaneWriter), *of_kind(values, Incarnation)]
        return cls((), waiting, names_ever(known), source_ids(known))


def _claim(key: bytes, value: bytes | None) -> FlowClaim | None:
    if not key.startswith(_CLAIM_KEY):
        return None
    record = parse_ledger(key, value)
    return record if isinstance(record, FlowClaim) else None


def require_ours(identity: Identity, owned: Owned) -> None:
    """Raise TerminalError unless the state belongs to this flow or to none."""
    refusal = why_not_ours(identity, owned.claims, owned.names, owned.source_ids)
    if refusal is not None:
        raise refusal


def require_claimed(identity: Identity, owned: Owned) -> None:
    """Raise unless the state belongs to this flow, now that its claim is in the log.

    Raises TerminalError if another flow's claim lies before it, TransientError while such a claim is undecided.
    """
    require_ours(identity, owned)
    others = sorted({name for name in owned.open_before if name != identity.flow})
    if others:
        raise TransientError(
            f"{others[0]} is claiming the state that {identity.flow} would copy with",
            hint="one of the two names has to go; run it again in a minute",
            code="claim-undecided",
            flow=identity.flow,
        )


def why_not_ours(
    identity: Identity, claims: Sequence[FlowClaim], names: Collection[str], known_sources: Collection[str]
) -> TerminalError | None:
    """Return why the state belongs to another flow; None if it belongs to this flow or to none.  Pure."""
    if not claims:
        return _why_not_begun_here(identity, names, known_sources)
    owner = claims[0]
    if owner.flow != identity.flow:
        return _another_name(identity.flow, owner.flow)
    source, _, target = identity.flow.partition("->")
    changes = (
        (SOURCE_CHANGED, source, owner.source_cluster_id, identity.source_cluster_id),
        (TARGET_CHANGED, target, owner.target_cluster_id, identity.target_cluster_id),
    )
    found = (_changed(identity.flow, *change) for change in changes if _differ(*change[2:]))
    return next(found, None)


def _why_not_begun_here(
    identity: Identity, names: Collection[str], known_sources: Collection[str]
) -> TerminalError | None:
    """Return why a ledger without claims was begun by another flow, as far as it tells."""
    seen = identity.source_cluster_id
    if names and identity.flow not in names:
        return _another_name(identity.flow, min(names))
    if known_sources and seen and seen not in known_sources:
        known = ", ".join(sorted(known_sources))
        return _changed(identity.flow, SOURCE_CHANGED, identity.flow.partition("->")[0], known, seen)
    return None


def _differ(known: str, seen: str) -> bool:
    return bool(known and seen and known != seen)


def _another_name(flow: str, owner: str) -> TerminalError:
    source, _, target = flow.partition("->")
    return TerminalError(
        f"what {target} holds of {source} is copied by {owner}: {flow} is a second name for the same cluster, and would"
        " copy everything twice",
        hint=f"take {flow} out; or, if {owner} is the old name: twinlog migrate claim --flow '{flow}' --reason ...",
        code=ANOTHER_NAME,
        flow=flow,
        owner=owner,
    )


def _changed(flow: str, code: str, alias: str, known: str, seen: str) -> TerminalError:
    return TerminalError(
        f"{alias} is another cluster than the one that {flow} was begun with: its id was {known} and is {seen}",
        hint=f"check {alias}.bootstrap.servers; if it is meant: twinlog migrate claim --flow '{flow}' --reason ...",
        code=code,
        flow=flow,
    )

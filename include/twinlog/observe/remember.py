"""Join what one look has found to what was known of a partition before: one record of the ledger.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.observed import KEPT_FINDINGS, Observed, ObservedFinding
from twinlog.jsonable import to_json
from twinlog.kafka_types import SourceIncarnation
from twinlog.observe.values import Carried, Found, Matched

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def begun(
    life: SourceIncarnation, remote: tuple[str, str], source: PartitionOffsets, target: PartitionOffsets
) -> Observed:
    """Return the record of a partition nobody has looked at yet; `remote` are the copy's name and topic id.

    The first look begins with offset 0 on both sides, so that it sees what expired: that is not comparable.
    """
    at, there = source.log_start, target.log_start
    carried: Mapping[str, Any] = to_json(Carried(0, 0))
    return Observed(*life, *remote, at, at, at, there, 0, {}, {}, (), 0, 0, 0, carried)


def went_on(new: Observed, upstream: int, downstream: int) -> Observed:
    """Return the record of a copy that is known up to both offsets, for twinlog itself made it until now."""
    carried: Mapping[str, Any] = to_json(Carried(upstream, downstream, upstream, upstream))
    return replace(
        new, begins=upstream, copied_to=upstream, mapped_to=upstream, seen_to=downstream, carried=carried
    )


def remembered(
    before: Observed, matched: Matched, at_ms: int, log_start: int, end: int, source_end: int
) -> Observed:
    """Add what was matched at `at_ms` (epoch ms), of a copy with those ends, and a source with that one.

    Of what left the copy behind its last record that was read, nobody knows what it was: it was not looked at.
    """
    counts = Counter(before.counts)
    counts.update({kind.value: count for kind, count in matched.counts.items() if count})
    new = tuple(_finding(finding, at_ms) for finding in matched.findings)
    carried, copied_to = matched.carried, max(before.begins, matched.carried.copied_to)
    return replace(
        before,
        copied_to=copied_to,
        mapped_to=max(before.begins, carried.closed_to),
        seen_to=carried.target_to,
        equal=before.equal + matched.equal,
        counts=dict(counts),
        since_ms={kind: before.since_ms.get(kind, at_ms) for kind in counts},
        findings=(*before.findings, *new)[:KEPT_FINDINGS],
        indistinct=before.indistinct + matched.indistinct,
        not_comparable=before.not_comparable + matched.not_comparable,
        at_ms=at_ms,
        carried=to_json(carried),
        read_to=end if log_start <= carried.target_to else carried.target_to,
        lag_records=max(0, source_end - copied_to),
    )


def _finding(it: Found, at_ms: int) -> ObservedFinding:
    return ObservedFinding(it.kind.value, it.upstream, it.downstream, it.records, it.fields, at_ms)


def carried_of(known: Observed) -> Carried:
    """Return what the next look goes on with."""
    return _adapter().validate_python(known.carried)


@cache
def _adapter() -> TypeAdapter[Carried]:
    from pydantic import TypeAdapter

    return TypeAdapter(Carried)

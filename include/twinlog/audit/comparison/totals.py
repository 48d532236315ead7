"""Add up the results of a comparison while it goes on."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

from twinlog.audit.comparison.record_fields import RawRecord, excerpt
from twinlog.audit.comparison.values import LISTED, Comparison, Difference
from twinlog.formats.ledger.audit import KEPT_SPANS, DifferenceKind, Unproved, UnprovedSpan

Content = tuple[int, bytes]


@dataclass(slots=True)
class Totals:
    """Counts, spans that could not be proved, and the first differences with their contents."""

    records: int = 0
    equal_bytes: int = 0
    equal_records: int = 0
    spans: list[UnprovedSpan] = field(default_factory=list)
    counts: Counter[DifferenceKind] = field(default_factory=Counter)
    listed: list[tuple[Difference, Content | None, Content | None]] = field(default_factory=list)
    _span_open: bool = False

    def equal(self, count: int, *, as_bytes: bool = False) -> None:
        """Count `count` equal records."""
        self.records += count
        if as_bytes:
            self.equal_bytes += count
        else:
            self.equal_records += count
        self._span_open = False

    def unproved(self, upstream: int, reason: Unproved, count: int = 1) -> None:
        """Note that nothing can be said of `count` records from this upstream offset on."""
        self.records += count
        last = self.spans[-1] if self.spans else None
        if last is not None and self._span_open and last.reason is reason and last.end <= upstream:
            self.spans[-1] = UnprovedSpan(last.start, upstream + count, last.records + count, reason)
        else:
            self.spans.append(UnprovedSpan(upstream, upstream + count, count, reason))
        self._span_open = True

    def differ(
        self,
        kind: DifferenceKind,
        at: tuple[int | None, int | None],
        message: str,
        source: RawRecord | None = None,
        target: RawRecord | None = None,
        fields: tuple[DifferenceKind, ...] = (),
    ) -> None:
        """Note a difference at (upstream, downstream)."""
        self.records += 1
        self._span_open = False
        self.counts[kind] += 1
        if len(self.listed) < LISTED:
            found = Difference(
                kind,
                *at,
                message,
                tuple(field.value for field in fields),
                None if source is None else excerpt(source),
                None if target is None else excerpt(target),
            )
            self.listed.append((
                found,
                None if source is None else source.content,
                None if target is None else target.content,
            ))

    def result(self, superseded: int) -> Comparison:
        """Return the result; equal records at another place are differences of order."""
        differences = self._reordered()
        return Comparison(
            self.records + superseded,
            self.equal_bytes,
            self.equal_records,
            superseded,
            shortened(self.spans),
            tuple(differences),
            {kind: count for kind, count in sorted(self.counts.items()) if count},
        )

    def _reordered(self) -> list[Difference]:
        on_source = {source for _, source, _ in self.listed if source is not None}
        on_target = {
            target: found.downstream_offset for found, _, target in self.listed if target is not None
        }
        lost = {s for found, s, t in self.listed if t is None and s is not None}
        result = []
        for found, source, target in self.listed:
            if source is not None and source in on_target and (target is None or target in on_source):
                self._recount(found.kind, DifferenceKind.ORDER)
                place = on_target[source]
                message = f"stands at downstream offset {place} instead of {found.downstream_offset}"
                moved = dataclasses.replace(found, kind=DifferenceKind.ORDER, message=message, fields=())
                result.append(moved)
            elif source is None and target is not None and target in lost:
                self._recount(found.kind, None)
            else:
                result.append(found)
        return result

    def _recount(self, was: DifferenceKind, now: DifferenceKind | None) -> None:
        self.counts[was] -= 1
        if now is not None:
            self.counts[now] += 1


def shortened(spans: list[UnprovedSpan] | tuple[UnprovedSpan, ...]) -> tuple[UnprovedSpan, ...]:
    """Keep as many spans as a ledger record holds; replace the rest by one span that covers them."""
    if len(spans) <= KEPT_SPANS:
        return tuple(spans)
    kept, rest = spans[: KEPT_SPANS - 1], spans[KEPT_SPANS - 1 :]
    start, end = min(span.start for span in rest), max(it.end for it in rest)
    return (*kept, UnprovedSpan(start, end, sum(span.records for span in rest), rest[0].reason))

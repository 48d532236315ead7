"""What a look has found is added to what was known before."""

from __future__ import annotations

from dataclasses import replace

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.ledger.observed import KEPT_FINDINGS, Observed
from twinlog.formats.ledger.records import parse_ledger
from twinlog.kafka_types import SourceIncarnation
from twinlog.observe.remember import begun, carried_of, remembered
from twinlog.observe.values import Carried, Finding, Found, Matched, Skipped
from twinlog.offsets.segments import Extent

LIFE = SourceIncarnation("orders", "id", 0)
NEW = begun(LIFE, ("A.orders", "copy"), PartitionOffsets(5, 100, 100), PartitionOffsets(7, 90, 90))
CARRIED = Carried(60, 70, copied_to=60, closed_to=40, open=(Extent(40, 50, 20),), marks=((1, 70),))


def matched(**found: int) -> Matched:
    kinds = {Finding(kind): count for kind, count in found.items()}
    named = tuple(Found(kind, (1, 2), (3, 4), count) for kind, count in kinds.items())
    return Matched((), named, CARRIED, kinds, equal=50, indistinct=2, not_comparable=1)


def test_begins_where_both_logs_begin():
    """Nothing is called copied before it was looked at."""
    assert (5, 5, 0) == (NEW.begins, NEW.copied_to, NEW.equal)
    assert Carried(0, 0) == carried_of(NEW)


def test_counts_are_added_and_the_first_time_of_a_kind_stays():
    """The newest positions count, and each kind is dated by its first finding."""
    once = remembered(NEW, matched(doubled=3), 1_000, 7, 90, 120)
    twice = remembered(once, matched(doubled=4, missing=1), 2_000, 7, 90, 120)
    assert {"doubled": 7, "missing": 1} == twice.counts
    assert {"doubled": 1_000, "missing": 2_000} == twice.since_ms
    assert (60, 40, 70, 100, 4, 2) == (
        *(twice.copied_to, twice.mapped_to, twice.seen_to),
        *(twice.equal, twice.indistinct, twice.not_comparable),
    )
    assert CARRIED == carried_of(twice)


def test_few_findings_are_named():
    """The ledger's record stays small, however much is wrong."""
    known = NEW
    for _ in range(KEPT_FINDINGS + 5):
        known = remembered(known, matched(foreign=1), 1, 7, 90, 120)
    assert (KEPT_FINDINGS, {"foreign": KEPT_FINDINGS + 5}) == (len(known.findings), known.counts)


def test_the_record_is_read_as_it_was_written():
    """With all that the next look goes on with."""
    known = remembered(NEW, matched(changed=1), 1, 7, 90, 120)
    read = parse_ledger(known.key(), known.value())
    assert isinstance(read, Observed)
    assert (known, CARRIED) == (read, carried_of(read))


def test_it_is_an_audit_of_what_the_map_has():
    """A changed record is a difference; doubled ones have checks of their own."""
    audit = remembered(NEW, matched(changed=2, doubled=9), 1, 7, 90, 120).audit
    assert (5, 40, 70, 2, 50) == (
        *(audit.start, audit.end, audit.downstream_end),
        *(audit.difference_count, audit.proved),
    )


def test_what_twinlog_had_proved_until_it_was_handed_over_stays_proved():
    """The look goes on where that audit ended; behind a part that nobody compared it proves nothing of it."""
    before = PartitionAudit(*LIFE, "A.orders", "copy", 0, 5, 7, 5, 3, 2, (), 0, (), 1)
    seen = remembered(NEW, matched(changed=2), 9, 7, 90, 120)
    whole = seen.audit_behind(before)
    assert (0, 40, 55, 57, 2, 9) == (
        *(whole.start, whole.end, whole.proved),
        *(whole.records, whole.difference_count, whole.at_ms),
    )
    assert [seen.audit] * 2 == [seen.audit_behind(it) for it in (None, replace(before, end=4))]


def test_records_passed_over_are_absent_before_they_are_missing():
    """They may still come; until then nobody says that none is missing."""
    waiting = replace(CARRIED, skipped=(Skipped((10, 13), 1), Skipped((20, 22), 1, told=True)))
    known = remembered(NEW, replace(matched(missing=2), carried=waiting), 1, 7, 90, 120)
    assert (3, 5, False) == (known.passed_over, known.absent, known.unmatched)
    told = replace(waiting, skipped=(), unmatched_since=7)
    later = remembered(known, replace(matched(missing=3), carried=told), 2, 7, 90, 120)
    assert (0, 5, True) == (later.passed_over, later.absent, later.unmatched)


def test_of_copies_that_left_before_they_were_read_nobody_says_that_they_were_looked_at():
    """A copy that is read to its end was looked at up to there, also behind its last record: that is a marker."""
    assert [90, 90, 70] == [remembered(NEW, matched(), 1, start, 90, 120).read_to for start in (7, 70, 71)]


def test_what_lagged_at_a_look_is_noted():
    """By the ends that were asked for then; a source that was cut off since lags nothing."""
    assert [60, 0] == [remembered(NEW, matched(), 1, 7, 90, end).lag_records for end in (120, 50)]
    assert None is NEW.lag_records

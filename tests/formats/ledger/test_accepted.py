"""What a person has accepted counts for what it covers, up to its number, and for nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.formats.ledger.accepted import (
    Accepted,
    Amount,
    Offence,
    Waiver,
    accepted_of,
    amounts,
    covering,
    every_form,
    not_enough,
    uncovered,
)
from twinlog.formats.ledger.topics import GapAcknowledged

NOW, HOUR = 1_700_000_000_000, 3_600_000
YES = Accepted("group-not-ahead", "billing", "it may", "jo", "login", NOW, NOW + HOUR, 42)
SKIPS = (Offence("billing", 0, 40), Offence("billing", 1, 2))


def covers(accepted: Accepted, *offences: Offence, now: int = NOW) -> bool:
    return bool(covering([accepted], accepted.check, offences, now))


@pytest.mark.parametrize(
    ("expected", "changes", "offences"),
    [
        (True, {}, SKIPS),
        (False, {"up_to": 41}, SKIPS),
        (False, {}, (*SKIPS, Offence("billing", 2, 1))),
        (False, {}, (*SKIPS, Offence("users", 0, 1))),
        (False, {"subject": "users"}, SKIPS),
        (True, {"subject": ""}, SKIPS),
        (False, {"subject": ""}, (*SKIPS, Offence("users", 0, 1))),
        (True, {"subject": "", "up_to": 43}, (*SKIPS, Offence("users", 0, 1))),
        (False, {}, (Offence("billing", 0, None),)),
        (True, {"not_known": 1}, (*SKIPS, Offence("billing", 2, None))),
        (False, {"not_known": 1}, (Offence("billing", 2, None), Offence("billing", 3, None))),
        (True, {"partitions": "0-1"}, SKIPS),
        (False, {"partitions": "0"}, SKIPS),
        (False, {"partitions": "0-1"}, (*SKIPS, Offence("billing", 2, 1))),
        (False, {"until_ms": NOW}, SKIPS),
        (False, {"at_ms": NOW + 25 * HOUR, "until_ms": NOW + 99 * HOUR}, SKIPS),
        (False, {"first_offset": 0}, SKIPS),
        (False, {}, ()),
    ],
)
def test_it_covers_its_subject_up_to_its_number(expected, changes, offences):
    """Exceeded by one it counts for nothing; not known is no number, and is accepted by rows."""
    assert expected is covers(replace(YES, **changes), *offences)


def test_several_cover_together_what_none_covers_alone():
    """A row that none of them covers is left, and then they are none."""
    rows = (*SKIPS, Offence("users", 0, 1))
    both = (YES, replace(YES, subject="users", up_to=1))
    assert both == covering(both, "group-not-ahead", rows, NOW)
    assert () == uncovered(both, "group-not-ahead", rows, NOW)
    assert (rows[-1],) == uncovered(both[:1], "group-not-ahead", rows, NOW)
    assert () == covering(both, "no-gaps", rows, NOW)


def test_an_age_may_grow_with_the_clock():
    """The same old fact is older later; one that is older than that is another."""
    yes = replace(YES, check="state-age", subject="A->B", up_to=10, until_ms=NOW + 9 * HOUR)
    assert covers(yes, Offence("A->B", None, 10 + 3600), now=NOW + HOUR)
    assert not covers(yes, Offence("A->B", None, 12 + 3600), now=NOW + HOUR)


@given(
    st.lists(
        st.builds(Offence, st.sampled_from("ab"), st.sampled_from([None, 0]), st.none() | st.integers(0, 9))
    )
)
def test_what_was_shown_is_covered_and_one_more_is_not(rows):
    """All that a look names is accepted by its numbers, and by no others."""
    given = [
        replace(YES, subject=it.subject, up_to=it.short, not_known=it.unknown)
        for it in amounts("group-not-ahead", rows)
    ]
    assert () == uncovered(given, "group-not-ahead", rows, NOW)
    for more in (Offence("a", 7, 1), Offence("a", 7, None)):
        assert more in uncovered(given, "group-not-ahead", [*rows, more], NOW)


def test_amounts_are_added_up_by_subject():
    """What is not known is counted apart."""
    rows = [*SKIPS, Offence("a", None, None), Offence("billing", 9, None)]
    assert (Amount("c", "a", 0, 1), Amount("c", "billing", 42, 1)) == amounts("c", rows)


def test_what_an_older_release_wrote_counts_as_it_did():
    """A waiver without a limit; a lost range up to its last offset, for ever."""
    waiver = accepted_of(Waiver("no-gaps", "orders", "old", "jo", NOW + 1, NOW))
    assert covers(waiver, Offence("orders", 0, 10**9), Offence("orders", 1, None))
    gap = accepted_of(GapAcknowledged("orders", "life", 3, 5, 9, "unread", "jo", NOW))
    assert ("orders", "life", "3", 5, 9, None) == (
        gap.topic,
        gap.topic_id,
        gap.partitions,
        gap.first_offset,
        gap.up_to,
        gap.until_ms,
    )
    assert [b'["waiver","no-gaps","orders"]'] == [it.key() for it in every_form(waiver)[1:]]
    assert [b'["gap-acknowledged","orders","life",3,5]'] == [it.key() for it in every_form(gap)[1:]]


@pytest.mark.parametrize(
    ("given", "now", "why"),
    [
        ({"up_to": 0, "not_known": 1}, 0, ""),
        (
            {"up_to": 0, "not_known": 1},
            5,
            "jo accepted group-not-ahead of billing, not known of 1; now it is 5",
        ),
        ({"up_to": 4}, 5, "jo accepted group-not-ahead of billing up to 4; now it is 5"),
        ({"up_to": 5, "not_known": 1}, 5, ""),
        ({"up_to": 5}, None, "jo accepted group-not-ahead of billing up to 5; now it is 0, not known of 1"),
    ],
)
def test_who_accepted_that_a_number_is_not_known_has_accepted_no_number(given, now, why):
    """Nor is a number a yes to what is not known; either is said, with what was accepted."""
    rows = [Offence("billing", 0, now)] if now != 0 else []
    yes = replace(YES, **({"up_to": 0} | given))
    told = not_enough([yes], YES.check, rows, NOW)
    assert why == told.replace(" up to 0", "")
    assert (not why and bool(rows)) == covers(yes, *rows)

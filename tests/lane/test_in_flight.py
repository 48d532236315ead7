"""Which sequence a partition's next batch has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.lane.in_flight import Sequences

TP = ("t", 0)
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=40)


@given(st.integers(0, 2**31 - 1), SIZES)
def test_sequences_go_on_from_what_was_used_up_and_wrap(used: int, sizes: list[int]) -> None:
    """Each batch begins where the one before it ended, modulo 2^31."""
    sequences = Sequences({TP: used})
    for index, size in enumerate(sizes):
        assert (used + sum(sizes[:index])) % 2**31 == sequences.take(TP, size)


@given(st.integers(0, 2**31 - 1), SIZES, st.data())
def test_guesses_come_down_to_what_the_broker_expects_and_never_below(
    used: int, sizes: list[int], data: st.DataObject
) -> None:
    """However many of the batches without an answer are in the log, from none to all."""
    sequences = Sequences({TP: used})
    taken = [(sequences.take(TP, size), size) for size in sizes]
    written = data.draw(st.integers(0, len(sizes)))
    expected = (used + sum(sizes[:written])) % 2**31
    for sequence, size in taken:
        sequences.may_be_written(TP, sequence, size)
    guesses = 0
    while (guess := sequences.next[TP]) != expected:
        assert sequences.guess_lower(TP, guess)
        guesses += 1
    assert guesses == len(sizes) - written
    sequences.found(TP)
    assert expected == sequences.take(TP, 1)


def test_a_refusal_that_was_no_guess_is_none() -> None:
    """Out of order at a sequence that was sure is a doubt, and so is the last guess."""
    sequences = Sequences()
    assert not sequences.guess_lower(TP, sequences.take(TP, 3))
    sequences.may_be_written(TP, 0, 3)
    assert sequences.guess_lower(TP, 3)
    assert not sequences.guess_lower(TP, 0)


def test_a_refused_batch_leaves_no_hole() -> None:
    """The next one takes its place."""
    sequences = Sequences()
    sequences.take(TP, 2)
    refused = sequences.take(TP, 5)
    sequences.set_back(TP, refused)
    assert 2 == sequences.take(TP, 1)


def test_what_was_guessed_before_a_batch_was_written_is_no_guess_any_more() -> None:
    """A sequence below it would be taken for a duplicate."""
    sequences = Sequences()
    sequences.may_be_written(TP, sequences.take(TP, 3), 3)
    sequences.found(TP)
    sequences.may_be_written(TP, sequences.take(TP, 2), 2)
    assert sequences.guess_lower(TP, 5)
    assert not sequences.guess_lower(TP, 3)
    assert 3 == sequences.next[TP]

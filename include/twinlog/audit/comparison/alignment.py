"""Find out which records of two sides belong together.  Pure.

A good copy needs only offsets: records belong together as the map says.  If that leaves many records unequal, they are
matched by content, so that one lost record does not make every record after it look wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from twinlog.audit.comparison.record_fields import RawRecord, key_of

Pair = tuple[RawRecord | None, RawRecord | None]
"""A source record and a target record that belong together; one of them is None if it has no counterpart."""

Place = Callable[[int], int | None]
"""Returns the downstream offset expected for the copy of an upstream offset; None if it has no copy."""


def align(
    source: Sequence[RawRecord],
    target: Sequence[RawRecord],
    place: Place,
    *,
    at_end: tuple[bool, bool],
    explained: Callable[[Pair], bool] = lambda pair: False,
) -> list[Pair]:
    """Pair up the beginnings of both lists with the fewest differences; by offset if that has the fewest.

    `at_end` says for each list whether it is the last; otherwise records that may have their counterpart later are
    left out.  `explained` says of a pair by offset whether there is a reason why one side is missing: then it is no
    difference.  Returns at least one pair unless both lists are empty.
    """
    by_place = by_offset(source, target, place, at_end=at_end)
    unexplained = unequal([pair for pair in by_place if not explained(pair)])
    if unexplained <= 1:
        return by_place
    matched = by_content(source, target, at_end=all(at_end))
    return matched if matched and unequal(matched) < unexplained else by_place


def unequal(pairs: Sequence[Pair]) -> int:
    """Count the pairs that are not two equal records."""
    return sum(left is None or right is None or left.content != right.content for left, right in pairs)


def by_offset(
    source: Sequence[RawRecord], target: Sequence[RawRecord], place: Place, *, at_end: tuple[bool, bool]
) -> list[Pair]:
    """Pair records by offset: where the map puts them."""
    pairs: list[Pair] = []
    left = right = 0
    while left < len(source) or right < len(target):
        if left == len(source):
            if not at_end[0]:
                break
            pairs.append((None, target[right]))
            right += 1
            continue
        expected = place(source[left].offset)
        if expected is None or (right < len(target) and expected < target[right].offset):
            pairs.append((source[left], None))
            left += 1
        elif right == len(target):
            if not at_end[1]:
                break
            pairs.append((source[left], None))
            left += 1
        elif expected == target[right].offset:
            pairs.append((source[left], target[right]))
            left, right = left + 1, right + 1
        else:
            pairs.append((None, target[right]))
            right += 1
    return pairs


def by_content(source: Sequence[RawRecord], target: Sequence[RawRecord], *, at_end: bool) -> list[Pair]:
    """Pair records by content, in order; empty if the lists have nothing in common."""
    steps = _steps([it.content for it in source], [it.content for it in target])
    if all(tag != "equal" for tag, *_ in steps):
        return []
    if not at_end and steps[-1][0] != "equal":
        steps.pop()
    pairs: list[Pair] = []
    for tag, left, left_end, right, right_end in steps:
        ours, theirs = source[left:left_end], target[right:right_end]
        pairs += zip(ours, theirs, strict=True) if tag == "equal" else _by_key(ours, theirs)
    return pairs


def _by_key(source: Sequence[RawRecord], target: Sequence[RawRecord]) -> Iterator[Pair]:
    """Pair records of which none are equal: those of one key belong together, in order, and others as they come."""
    keys = ([key_of(it.rest) for it in source], [key_of(it.rest) for it in target])
    for _, left, left_end, right, right_end in _steps(*keys):
        yield from zip_longest(source[left:left_end], target[right:right_end])


def _steps(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    return SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes()

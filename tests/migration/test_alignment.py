"""Where a copy ends, held against a small MM2 that is stopped and killed at random."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.prints import Fingerprint, key_digest
from twinlog.migration.alignment import Verdict, Window, align
from twinlog.offsets.segments import Extent


def record(offset: int, content: object, *, key: str | None = None, aborted: bool = False) -> Fingerprint:
    return Fingerprint(offset, 0, str(content).encode(), key_digest(key.encode()) if key else None, aborted)


def log(contents: str, first: int = 0) -> list[Fingerprint]:
    """One record a letter; a dot is an offset without one (a marker)."""
    return [record(first + n, letter) for n, letter in enumerate(contents) if letter != "."]


def window(source: str, target: str, progress: int | None, **changes: bool) -> Window:
    return Window(
        log(source),
        log(target),
        progress,
        **({"from_source_start": True, "from_first_record": True} | changes),
    )


def test_a_clean_stop() -> None:
    """The copy ends where MM2 says, and everything is one run."""
    found = align(window("abcdef", "abcd", 3))
    assert (Verdict.PROVED, 3, 4, 0, 0) == (
        found.verdict,
        found.last_upstream,
        found.compared,
        found.duplicates,
        found.beyond,
    )
    assert (Extent(0, 0, 4),) == found.runs


def test_records_copied_but_not_written_down() -> None:
    """MM2 was killed before its next flush: the copy goes further than it says."""
    found = align(window("abcdefgh", "abcdef", 2))
    assert (Verdict.PROVED, 5, 3) == (found.verdict, found.last_upstream, found.beyond)


def test_records_copied_twice_are_counted_and_mapped_once() -> None:
    """Killed, started, killed again: the first copy of each record is the one that counts."""
    found = align(window("abcdefgh", "abcdefcde", 1))
    assert (Verdict.PROVED, 5, 3) == (found.verdict, found.last_upstream, found.duplicates)
    assert (Extent(0, 0, 6),) == found.runs
    assert (2, 6) in found.pairs


def test_it_fell_back_and_went_past() -> None:
    """New records lie behind the repeated ones."""
    found = align(window("abcdefgh", "abcdcdefg", 3))
    assert (Verdict.PROVED, 6, 2) == (found.verdict, found.last_upstream, found.duplicates)
    assert (Extent(0, 0, 4), Extent(4, 6, 3)) == found.runs


def test_markers_are_no_records() -> None:
    """Offsets of markers lie between runs, on either side."""
    found = align(window("ab.cd.ef", "abc.d.", 4))
    assert (Verdict.PROVED, 4) == (found.verdict, found.last_upstream)
    assert (Extent(0, 0, 2), Extent(3, 2, 1), Extent(4, 4, 1)) == found.runs


def test_position_on_a_marker_is_kept() -> None:
    """Twinlog writes the last offset it is done with, which may hold no record."""
    assert 2 == align(window("ab.cd", "ab", 2)).last_upstream


@pytest.mark.parametrize("copied", ["abcde", "abcdexy"])
def test_a_position_behind_aborted_records_is_proved_by_those_before(copied: str) -> None:
    """Who reads what is committed passes them and copies nothing; who reads everything copies them."""
    source = [*log("abcde"), record(6, "x", aborted=True), record(7, "y", aborted=True)]
    found = align(Window(source, log(copied), 8, from_source_start=True, from_first_record=True))
    assert (Verdict.PROVED, 8, len(copied), 0) == (
        found.verdict,
        found.last_upstream,
        found.compared,
        found.beyond,
    )
    missing = align(Window(source, log("abcd"), 8, from_source_start=True, from_first_record=True))
    assert Verdict.INCOMPLETE is missing.verdict


def test_aborted_records_may_be_left_out_or_copied() -> None:
    """MM2 reads uncommitted unless told otherwise."""
    source = [record(0, "a"), record(1, "x", aborted=True), record(2, "b"), record(3, "c")]
    for target in ("ab", "axb"):
        found = align(Window(source, log(target), 0, from_source_start=True))
        assert (Verdict.PROVED, 2) == (found.verdict, found.last_upstream)


def test_identical_records_and_a_clean_stop() -> None:
    """What MM2 wrote is there, and more than was copied cannot be: the end is certain all the same."""
    found = align(window("aaaaaa", "aaaa", 3))
    assert (Verdict.PROVED, 3) == (found.verdict, found.last_upstream)


def test_identical_records_and_a_kill() -> None:
    """One more record, or one twice?  Nobody can know."""
    assert Verdict.AMBIGUOUS is align(window("aaaaaa", "aaaa", 2)).verdict


def test_timestamps_tell_records_apart_where_they_are_kept() -> None:
    """The same content at another time is another record."""
    source = [Fingerprint(n, 1000 + n, b"same", None) for n in range(6)]
    target = [Fingerprint(n, 1000 + n, b"same", None) for n in range(4)]
    assert (Verdict.PROVED, 3) == (
        (found := align(Window(source, target, 1, from_source_start=True))).verdict,
        found.last_upstream,
    )
    without = Window(source, target, 1, from_source_start=True, timestamps=False)
    assert Verdict.AMBIGUOUS is align(without).verdict


@pytest.mark.parametrize(
    ("source", "target", "progress", "verdict", "at"),
    [
        ("abcdef", "abXd", 3, Verdict.DIFFERENT, 2),
        ("abcdef", "abd", 3, Verdict.INCOMPLETE, 2),
        ("abcdef", "ab", 3, Verdict.INCOMPLETE, 1),
        ("abcdef", "XYZ", 2, Verdict.DIFFERENT, 2),
        ("abcdef", "XYZ", None, Verdict.DIFFERENT, 2),
    ],
)
def test_what_is_no_copy(source: str, target: str, progress: int | None, verdict: Verdict, at: int) -> None:
    """Nothing is proved, and the record in the way is named."""
    found = align(window(source, target, progress))
    assert (verdict, at) == (found.verdict, found.at)


def test_a_repetition_from_before_the_window() -> None:
    """More of the source has to be looked at."""
    found = align(Window(log("efgh", 4), log("defdefg"), 5, from_source_start=False))
    assert Verdict.LOOK_FURTHER_BACK is found.verdict


def test_older_records_of_the_target_need_no_counterpart() -> None:
    """The target's window begins before the source's."""
    found = align(Window(log("efgh", 4), log("cdef", 2), 5, from_source_start=True))
    assert (Verdict.PROVED, 5, 2) == (found.verdict, found.last_upstream, found.compared)


@pytest.mark.parametrize(
    ("source", "target", "progress"), [([], "abc", 2), ("ab", "", None), ("ab", "", 1), ([], "", None)]
)
def test_nothing_to_compare(source: str, target: str, progress: int | None) -> None:
    """What MM2 says stands: nothing speaks against it."""
    found = align(window(source or "", target, progress))
    assert (Verdict.NOT_COMPARED, -1 if progress is None else progress) == (
        found.verdict,
        found.last_upstream,
    )


def test_the_source_has_deleted_all_that_was_copied() -> None:
    """And none of what is left has been copied yet."""
    found = align(Window(log("gh", 6), log("def"), 5, from_source_start=True))
    assert (Verdict.NOT_COMPARED, 5) == (found.verdict, found.last_upstream)


def keyed(text: str, first: int = 0) -> list[Fingerprint]:
    """`a1 b1 a2`: key a, then b, then a again; `-` is an offset that compaction emptied."""
    words = enumerate(text.split())
    return [record(first + n, word, key=word[0]) for n, word in words if word != "-"]


@pytest.mark.parametrize(
    ("source", "target", "progress", "verdict", "last"),
    [
        ("a1 b1 a2 c1", "a1 b1 a2", 2, Verdict.PROVED, 2),
        ("- b1 a2 c1", "a1 b1 a2", 1, Verdict.PROVED, 2),
        ("a1 b1 a2 c1", "- b1 a2", 1, Verdict.PROVED, 2),
        ("a1 b1 a2 c1 d1", "a1 - a2 c1", 1, Verdict.PROVED, 3),
        ("a1 b1 c1 d1", "a1 b1 - d1", 1, Verdict.INCOMPLETE, 1),
    ],
)
def test_compacted_topics(source: str, target: str, progress: int, verdict: Verdict, last: int) -> None:
    """Either side may have lost what a later record replaces, and nothing else."""
    found = align(Window(keyed(source), keyed(target), progress, from_source_start=True, compacted=True))
    assert (verdict, last) == (found.verdict, found.last_upstream)


@dataclass(frozen=True)
class Life:
    """One life of a small MM2: how far it gets beyond its position, and how much of that it writes down."""

    copies: int
    flushes: int


lives = st.lists(st.builds(Life, st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=5)


def copy(source: list[Fingerprint], history: list[Life]) -> tuple[list[Fingerprint], int | None, int]:
    """Run MM2 life after life; give the target's log, its position, and how far the copy really goes."""
    target: list[Fingerprint] = []
    position = furthest = -1
    for life in history:
        visible = [it for it in source if it.offset > position][: life.copies]
        target += [Fingerprint(len(target) + n, 0, it.content, None) for n, it in enumerate(visible)]
        furthest = max([furthest, *(it.offset for it in visible)])
        flushed = visible[: life.flushes]
        position = flushed[-1].offset if flushed else position
    return target, None if position < 0 else position, furthest


@given(st.lists(st.booleans(), min_size=1, max_size=30), lives)
def test_the_end_is_found_when_records_differ(holes: list[bool], history: list[Life]) -> None:
    """Whatever was killed when: the end, the repetitions and the map are right."""
    source = [record(n, n) for n, hole in enumerate(holes) if not hole]
    target, progress, furthest = copy(source, history)
    found = align(Window(source, target, progress, from_source_start=True, from_first_record=True))
    assert furthest == found.last_upstream
    if source and target:
        assert Verdict.PROVED is found.verdict
        contents = {it.offset: it.content for it in source}
        copies = {it.offset: it.content for it in target}
        assert all(contents[up] == copies[down] for up, down in found.pairs)
        assert len(target) == found.compared
        assert len(target) - len({it.content for it in target}) == found.duplicates
        mapped = [run.upstream + n for run in found.runs for n in range(run.length)]
        assert [it.offset for it in source if it.offset <= furthest] == mapped


@given(st.text("ab", min_size=1, max_size=20), lives)
def test_never_a_wrong_end_when_records_are_alike(contents: str, history: list[Life]) -> None:
    """Two contents only: either the end is right, or nothing is proved."""
    source = log(contents)
    target, progress, furthest = copy(source, history)
    found = align(Window(source, target, progress, from_source_start=True, from_first_record=True))
    if found.verdict is Verdict.PROVED:
        assert furthest == found.last_upstream
    else:
        assert found.verdict in {Verdict.AMBIGUOUS, Verdict.NOT_COMPARED}

"""Filters are MM2's: joined lists, whole names, include without exclude (DefaultTopicFilter)."""

import pickle

import pytest

from twinlog.errors import ConfigError
from twinlog.policy.selection import NameFilter, is_drilled


def accepted(names: list[str], **lists: tuple[str, ...]) -> list[str]:
    only = NameFilter(**lists)
    return [name for name in names if only.accepts(name)]


def test_the_default_accepts_every_name():
    """MM2's default for topics and groups is `.*`."""
    assert accepted(["a", "A.b", ""]) == ["a", "A.b", ""]


def test_an_empty_include_list_matches_nothing():
    """`topics =` replicates nothing."""
    assert accepted(["a", ""], include=()) == []


def test_exclude_wins_over_include():
    """MM2's default exclusions take internal-looking names out."""
    exclude = (r"mm2.*\.internal", r".*\.replica", "__.*")
    names = ["a", "a.replica", "__c", "mm2-x.internal", "mm2-x.internals"]
    assert accepted(names, exclude=exclude) == ["a", "mm2-x.internals"]


def test_patterns_match_whole_names():
    """A name that merely contains a match is not meant."""
    assert accepted(["orders", "orders2", "my-orders"], include=("orders",)) == ["orders"]


def test_an_inline_flag_leaks_into_the_later_elements():
    """The list is one alternation, so `(?i)` in the first element holds in the second."""
    assert accepted(["A", "B"], include=("(?i)a", "b")) == ["A", "B"]
    assert accepted(["A", "B"], include=("a", "(?i)b")) == ["B"]


def test_an_element_may_be_half_an_expression():
    """Only the joined text counts, as in MM2: here a group over two elements."""
    assert accepted(["ax", "bx", "a"], include=("(a", "b)x")) == ["ax", "bx"]


@pytest.mark.parametrize("lists", [{"include": ("ok", "b[")}, {"exclude": ("ok", "b[")}])
def test_a_bad_element_is_named_when_the_filter_is_built(lists):
    """The error shows the element a person can find in the file, not the joined text."""
    with pytest.raises(ConfigError, match=r"'b\['"):
        NameFilter(**lists)


def test_a_filter_survives_pickling():
    """Filters travel inside settings."""
    only = NameFilter(("a.*",), ("ab",))
    assert pickle.loads(pickle.dumps(only)) == only


def test_clones_of_drills_are_known_by_their_names():
    """Names that only begin alike are groups of users, and stay followed."""
    names = [
        "drill-20260101T000000Z-0a1b2c-billing",
        "drill-20260101T000000Z-0a1b2c-",
        "drill-billing",
        "drill-",
    ]
    names += ["drill-20260101T000000Z-0a1b2c", "my-drill-20260101T000000Z-0a1b2c-billing", "DRILL-1"]
    assert [True, True, *[False] * 5] == [is_drilled(it) for it in names]

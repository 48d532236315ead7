"""Translated patterns beside java.util.regex itself, in a Java of this machine (some seconds)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.policy.test_java_regex import MATCHES

from twinlog.errors import ConfigError
from twinlog.lab.kafka.java import find_java
from twinlog.policy.java_regex import compile_java

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parent / "JavaMatches.java"
AskJava = Callable[[str, list[str]], str]

# Java before 19 takes other letters than ASCII into account at \b: names with them are not asked about there.
ASCII = "abckABCK019._-&^]}~ \t\n\r"
OTHERS = "éÉſ\u212aαΑ\x1c\x85\xa0\u2028😀"

LITERALS = st.sampled_from([
    *ASCII.replace("^", ""),
    *OTHERS,
    *[r"\.", r"\-", r"\^", r"\\", r"\x41", r"\u0062", r"\x{43}", r"\060", r"\t", r"\cA"],
])
_SHORT = [*(f"\\{letter}" for letter in "dDwWsShHvV"), r"\pL", r"\P{Lu}"]
CLASSES = st.sampled_from([".", *_SHORT, r"\p{Lower}", r"\P{Punct}", r"\p{XDigit}", r"\p{IsGreek}"])
RANGES = st.sampled_from(["a-c", "A-b", "0-9", "-", "a-", " -~", "é-ÿ", r"\x41-C", "]-a"])
ITEMS = LITERALS | RANGES | CLASSES.filter(lambda text: text != ".")


def brackets(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    side = st.lists(inner, min_size=1, max_size=3).map("".join)
    sides = st.lists(side, min_size=1, max_size=3).map("&&".join)
    return st.builds("[{}{}]".format, st.sampled_from(["", "^"]), sides)


BRACKETS = st.recursive(brackets(ITEMS), lambda inner: brackets(ITEMS | inner), max_leaves=4)
ATOMS = LITERALS | CLASSES | BRACKETS | st.sampled_from([r"\Qa.b\E", r"\Q^\E", "^", "$", r"\Z", r"\b", r"\B"])
QUANTIFIERS = st.sampled_from([
    "",
    "",
    "",
    *["*", "+", "?", "{2}", "{1,}", "{0,2}"],
    *["*?", "++", "?+", "{1,2}?", "{0,2}+"],
])
GROUPS = st.sampled_from(["(", "(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!", "(?<n>", "(?i:", "(?s:", "(?-i:"])
FLAGS = st.sampled_from(["(?i)", "(?s)", "(?-i)", "(?i-s)", "(?m)"])


def longer(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = st.builds("{}{})".format, GROUPS, inner)
    sequence = st.lists(st.builds("{}{}".format, ATOMS | group, QUANTIFIERS) | FLAGS, max_size=3).map("".join)
    return st.lists(sequence, min_size=1, max_size=3).map("|".join)


PATTERNS = st.recursive(st.builds("{}{}".format, ATOMS, QUANTIFIERS), longer, max_leaves=6)
NAMES = st.text(st.sampled_from(ASCII + OTHERS), max_size=6)


@pytest.fixture(scope="module")
def ask_java() -> Iterator[AskJava]:
    """`ask_java(pattern, names)` is a 1 or 0 for each name, or "refused"."""
    command = [str(find_java().path), "-Xss8m", str(PROGRAM)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None
        assert java.stdout is not None
        questions, answers = java.stdin, java.stdout

        def ask(pattern: str, names: list[str]) -> str:
            questions.write(",".join(text.encode().hex() for text in (pattern, *names)) + "\n")
            questions.flush()
            return answers.readline().strip()

        yield ask
        questions.close()


def ours(pattern: str, names: list[str]) -> str:
    compiled = compile_java(pattern)
    return "".join("1" if compiled.match(name) else "0" for name in names)


@pytest.mark.parametrize(("pattern", "matched", "unmatched"), MATCHES)
def test_the_vectors_are_javas(ask_java, pattern, matched, unmatched):
    """What the unit test holds is what Java says."""
    assert ask_java(pattern, matched + unmatched) == "1" * len(matched) + "0" * len(unmatched)


_POSIX = [
    "Lower",
    "Upper",
    "ASCII",
    "Alpha",
    "Digit",
    "Alnum",
    "Punct",
    "Graph",
    "Print",
    "Blank",
    "Cntrl",
    "Space",
]


@pytest.mark.parametrize(
    "pattern",
    [
        *_SHORT[:10],
        *(f"\\p{{{name}}}" for name in _POSIX),
        ".",
        "(?s).",
        "(?i)[h-t]",
        "(?i)[^k]",
        "[^k]|[^s]",
    ],
)
def test_a_class_holds_the_same_characters(ask_java, pattern):
    """Every code point that a class treats apart is asked about, and some beyond."""
    characters = [chr(code) for code in (*range(0x3100), 0xFEFF, 0xFFFF, 0x1F600, 0x10FFFF)]
    assert ask_java(pattern, characters) == ours(pattern, characters)


@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=20, unique=True))
def test_a_pattern_means_what_java_means_or_is_refused(ask_java, pattern, names):
    """What compiles, compiles in Java, and matches the same names."""
    if find_java().version < 19 and r"\b" in pattern.lower():
        names = [name for name in names if name.isascii()]
    try:
        compile_java(pattern)
    except ConfigError:
        return
    assert ask_java(pattern, names) == ours(pattern, names)

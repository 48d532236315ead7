"""What clusters say reaches terminals, logs and pages as text, never as commands."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.visible import visible, visible_json, visible_lines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User:CN=Jürgen, O=東京", "User:CN=Jürgen, O=東京"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\nerror: all is well", r"a\x0aerror: all is well"),
        ("a\r\n```", r"a\x0d\x0a```"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("zero\u200bwidth\u2028", r"zero\u200bwidth\u2028"),
        ("lone \udcff", r"lone \udcff"),
    ],
)
def test_what_acts_is_shown(text: str, expected: str) -> None:
    """Everything else stays as it is."""
    assert expected == visible(text)


def test_line_ends_of_our_own_texts_stay() -> None:
    """A list of mistakes has a line for each."""
    assert "two mistakes:\n  a\\x1b" == visible_lines("two mistakes:\n  a\x1b")


@given(st.text(st.characters()))
def test_a_visible_text_is_one_printable_line(text: str) -> None:
    """Whatever it was; and what is visible stays as it is."""
    shown = visible(text)
    assert [shown] == (shown.splitlines() or [""])
    shown.encode()
    assert shown == visible(shown)


@given(st.text(st.characters()))
def test_a_visible_document_says_the_same(text: str) -> None:
    """Programs read what they read before."""
    document = json.dumps({"name": text}, ensure_ascii=False, indent=2) + "\n"
    shown = visible_json(document)
    assert {"name": text} == json.loads(shown)
    assert 3 == len(shown.splitlines())

"""What clusters say reaches terminals, logs and pages as text, never as commands."""

import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.visible import VisibleFormatter, for_chats, singular, visible, visible_json, visible_lines


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


def test_a_log_line_is_one_line() -> None:
    """A transactional id with ESC, BEL and CR moves no cursor; a traceback keeps its lines, and acts on nothing."""
    formatter = VisibleFormatter("%(levelname)s: %(message)s")
    made = logging.LogRecord("twinlog", logging.WARNING, "", 1, "id %s", ("a\x1b[2J\x07\r\nb",), None)
    assert r"WARNING: id a\x1b[2J\x07\x0d\x0ab" == formatter.format(made)
    try:
        raise ValueError("\x1b")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert r"ValueError: \x1b" == formatter.format(made).splitlines()[-1]


def test_an_alarm_calls_nobody() -> None:
    """By what Slack, Mattermost, Discord and Teams act on."""
    text = "A->B: <!channel> <@U1> @everyone <http://evil|here> [here](http://evil)\nx\x1b"
    shown = "A->B: \u2039!channel> \u2039\uff20U1> \uff20everyone \u2039http://evil|here> [here] (http://evil)\nx\\x1b"
    assert shown == for_chats(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 groups went on", "1 group went on"),
        ("1 records are lost, 1 cycles", "1 record is lost, 1 cycle"),
        ("11 records, 2,001 records, 0.1 records are", "11 records, 2,001 records, 0.1 records are"),
        ("orders-1 records, partition 1: records", "orders-1 records, partition 1: records"),
    ],
)
def test_what_is_counted_agrees_with_its_number(text: str, expected: str) -> None:
    """Only a number that stands alone is one."""
    assert expected == singular(text)

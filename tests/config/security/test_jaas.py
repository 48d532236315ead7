"""`sasl.jaas.config` in Java's language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.security.sasl import LoginModule, parse_jaas
from twinlog.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required username="u" password="p";', {"username": "u", "password": "p"}),
        ("M required username='u' password=p;", {"username": "u", "password": "p"}),
        ("M REQUIRED;", {}),
        (
            'M required\n  username = "u"\n  // comment\n  password="a;b=c" /* more */ ;\n',
            {"username": "u", "password": "a;b=c"},
        ),
        (r'M required password="q\"\\\101\n";', {"password": 'q"\\A\n'}),
        ('M optional a="";', {"a": ""}),
    ],
)  # fmt: skip
def test_entries(text: str, options: dict[str, str]) -> None:
    """Quotes, escapes, comments and line ends."""
    assert LoginModule("M", options) == parse_jaas(text)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n\r")))
def test_a_quoted_value_is_read_back(value: str) -> None:
    """Whatever a password holds, quoting it with escapes keeps it."""
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    assert value == parse_jaas(f'M required password="{quoted}";').options["password"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        ("hunter2", "does not end in a semicolon"),
        ('M required password="hunter2"', "does not end in a semicolon"),
        ('M required password="hunter2;', "has a quote that is not closed"),
        ('M required; N required password="hunter2";', "holds 2 login modules"),
        ("M hunter2;", "does not start with a login module and a flag"),
        ("M required password=hunter2 hunter2;", "its option 2 is not name=value"),
        ("M required =hunter2;", "its option 1 is not name=value"),
    ],
)
def test_a_broken_entry_is_refused_without_quoting_it(text: str, part: str) -> None:
    """The error says what is wrong, and nothing of the text, which holds a password."""
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text)
    assert (part in str(caught.value), "hunter2" in str(caught.value)) == (True, False)


def test_options_are_not_printed() -> None:
    """A login module prints its name only."""
    assert "hunter2" not in repr(parse_jaas("M required password=hunter2;"))

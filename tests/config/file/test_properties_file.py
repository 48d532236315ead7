"""Reading a properties file: Java's syntax, with lines."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.file.origin import Findings, Severity
from twinlog.config.file.properties_file import parse, read
from twinlog.errors import ConfigError


def parsed(text: str) -> dict[str, str]:
    return {key: value.text for key, value in parse(text.encode("latin-1"), "f", Findings("f")).items()}


def warnings_of(text: str) -> tuple[str, ...]:
    findings = Findings("f")
    parse(text.encode("latin-1"), "f", findings)
    return findings.lines(Severity.WARNING)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a : b", {"a": "b"}),
        ("A->B.enabled true", {"A->B.enabled": "true"}),
        ("topics = a, \\\n    b", {"topics": "a, b"}),
        ("topics = ^((?!B\\\\.).*)$", {"topics": r"^((?!B\.).*)$"}),
        ("topics = ^((?!B\\.).*)$", {"topics": "^((?!B.).*)$"}),
        ("! comment\n# another\n\na=", {"a": ""}),
        ("a=b  ", {"a": "b  "}),
        ("a=1\na=2", {"a": "2"}),
        ("k\\:e\\ y = \\u00e9", {"k:e y": "é"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_values_are_what_java_reads(text: str, expected: dict[str, str]) -> None:
    """Separators, continuation lines, escapes and duplicates follow java.util.Properties."""
    assert expected == parsed(text)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_each_key_knows_its_first_line(newline: str) -> None:
    """Comments, blank lines and continuation lines count, whatever ends a line."""
    text = newline.join(["# head", "", "a = 1, \\", "    2, \\", "    3", "b = 4", "", "c = 5"])
    found = parse(text.encode(), "f", Findings("f"))
    assert {"a": 3, "b": 6, "c": 8} == {key: value.origin.line for key, value in found.items()}


@given(
    st.dictionaries(
        st.text(st.characters(codec="latin-1"), min_size=1), st.text(st.characters(codec="latin-1"))
    )
)
def test_reading_undoes_writing(properties: dict[str, str]) -> None:
    """Whatever javaproperties writes is read back unchanged, key by key."""
    assert properties == parsed(javaproperties.dumps(properties, timestamp=None))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a=1\na=2", "f:2: a: is set again, this line wins over line 1"),
        ("A->B.enabled=true ", "f:1: A->B.enabled: the value ends in blanks"),
        ("topics=A\\.orders", "f:1: topics: a single backslash disappears"),
        ("a=pass\xfcword", "f:1: a: characters beyond ASCII"),
        (
            "\nA->B.topics = orders, payments   # important",
            "f:2: A->B.topics: holds what reads like a comment",
        ),
        ("a=true ! for now", "f:1: a: holds what reads like a comment"),
        ("a=x\t#y", "f:1: a: holds what reads like a comment"),
        ("topics = # all of them", "f:1: topics: holds what reads like a comment"),
        ("topics = orders, \\\n  # payments, \\\n  invoices", "f:1: topics: holds what reads like a comment"),
        ("topics = orders,\\\n#payments,\\\ninvoices", "f:1: topics: holds what reads like a comment"),
    ],
)
def test_likely_mistakes_are_warned_about_by_line(text: str, part: str) -> None:
    """Duplicates, trailing blanks, lost backslashes and Latin-1 are said with file and line."""
    assert [True] == [part in line for line in warnings_of(text)]


@pytest.mark.parametrize(
    "text",
    [
        "topics=A\\\\.orders",
        "a=b",
        "a=x\\:y\\=z",
        "a=x,\\\n  y",
        "# caf\xe9\na=b",
        "a=#secret",
        "a = #",
        "a=b#c!d",
        "a=b \\# meant",
        "a=b \\! meant",
    ],
)
def test_good_lines_are_not_warned_about(text: str) -> None:
    """Doubled backslashes, escapes that Java needs and comments are fine."""
    assert () == warnings_of(text)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"\xff\xfea\x00=\x00b\x00", "binary or UTF-16"),
        (b"\x00\x01", "binary or UTF-16"),
        (b"\xef\xbb\xbfclusters=A", "byte order mark"),
        (b'{"name": "x"}', "is JSON"),
        (b"  <xml/>", "XML or HTML"),
        (b"a=1\nb=\\u12\n", "f:2: "),
    ],
)
def test_what_is_no_properties_file_is_refused(tmp_path: Path, content: bytes, part: str) -> None:
    """Binary files, other formats and broken escapes are one clear ConfigError."""
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read(path, Findings("f"))
    assert part in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    """The path is named, and what to do."""
    for path in (tmp_path / "none.properties", tmp_path):
        with pytest.raises(ConfigError) as caught:
            read(path, Findings("f"))
        assert str(path) in caught.value.message

"""Fields of JSON texts are found where they lie, whatever stands around them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.transforms.json_fields import Finder, NotJsonError, TooDeepError, content, replaced

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
names = st.sampled_from(["a", "b", 'a"b', "\\", "ü", "\n"])
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
paths = st.lists(names, min_size=1, max_size=3).map(tuple)


def emptied(value: Any, path: tuple[str, ...]) -> Any:
    """Return a document with a field replaced by 7: what `find` has to make possible, without texts."""
    if not path:
        return 7
    match value:
        case dict():
            return {name: emptied(it, path[1:]) if name == path[0] else it for name, it in value.items()}
        case list():
            return [emptied(it, path) for it in value]
    return value


@given(documents, paths, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_replacing_what_was_found_is_replacing_the_field(
    document: Any, path: tuple[str, ...], ascii_only: bool, indent: Any
) -> None:
    """Law, for every document and however it is written."""
    value = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace")
    found = Finder([path]).find(value)
    made = replaced(value, [(it, b"7") for it in found])
    assert emptied(json.loads(value), path) == json.loads(made)


@given(documents, paths, st.binary(max_size=2), st.integers(0))
def test_what_is_accepted_is_what_the_standard_library_reads(
    document: Any, path: tuple[str, ...], noise: bytes, at: int
) -> None:
    """Law, for texts that are damaged: the fields are found in JSON, and in nothing else."""
    value = json.dumps(document).encode()
    at %= len(value) + 1
    value = value[:at] + noise + value[at + 1 :]
    try:
        Finder([path]).find(value)
        accepted = True
    except NotJsonError:
        accepted = False
    assert is_json(value) == accepted


def is_json(value: bytes) -> bool:
    """Ask Python's own reader, without its extensions to RFC 8259."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(value.decode(), parse_constant=refuse)
    except ValueError:
        return False
    return True


@given(documents, st.sampled_from([("no",), ("no", "way")]))
def test_a_field_that_is_not_there_is_not_found(document: Any, path: tuple[str, ...]) -> None:
    """And nothing changes."""
    assert [] == Finder([path]).find(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a":1,"a":"x"}', ["1", '"x"']),
        ('{"\\u0061":1}', ["1"]),
        (' { "b" : {"a":2}, "a" : [ {"a":3} ] } ', ['[ {"a":3} ]']),
        ('[{"a":1},[{"a":{}}]]', ["1", "{}"]),
        ('{"a":%s}' % ("9" * 5000), ["9" * 5000]),
    ],
)
def test_names_twice_or_escaped_and_arrays(text: str, found: list[str]) -> None:
    """Nothing of a field is left behind because of how it is written."""
    value = text.encode()
    assert found == [value[it.start : it.end].decode() for it in Finder([("a",)]).find(value)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "{",
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        '{"a":01}',
        "[1,]",
        "{} {}",
        '{"a":NaN}',
        '"\n"',
        "\ufeff{}",
    ],
)
def test_what_is_no_json(text: str) -> None:
    """RFC 8259, and nothing more."""
    with pytest.raises(NotJsonError):
        Finder([("a",)]).find(text.encode())


@pytest.mark.parametrize("text", ["[" * 200_000, '{"b":' * 200_000])
def test_a_text_too_deep_to_be_read_is_told_from_one_that_is_no_json(text: str) -> None:
    """Other readers may read it, so it never passes as something else."""
    with pytest.raises(TooDeepError):
        Finder([("a",)]).find(text.encode())


def test_the_content_of_a_string_is_its_characters() -> None:
    """However it is escaped; other values are as they are written."""
    assert ["é", "é", "1.0", "null"] == [content(it) for it in ('"é"', '"\\u00e9"', "1.0", "null")]

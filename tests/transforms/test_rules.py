"""What record rules make of keys and values."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from twinlog.transforms.rules import (
    DROPPED,
    FieldMatches,
    HmacKey,
    NotJson,
    RefusedValueError,
    Rule,
    applied,
)

SECRET = b"0123456789abcdef"
KEY = HmacKey(SECRET)


def make(rule: Rule, value: bytes | None, key: bytes | None = None) -> bytes | None:
    """Apply one rule to one record."""
    return applied([rule])(key, value)


def hashed(text: str) -> bytes:
    """Return a hashed string as JSON."""
    return b'"%s"' % hmac.new(SECRET, text.encode(), hashlib.sha256).hexdigest().encode()


@pytest.mark.parametrize(
    ("value", "made"),
    [
        (b'{"a": "x", "b":1}', b'{"a": "", "b":1}'),
        (b'{"a":-1.5e3}', b'{"a":0}'),
        (b'{"a":true}', b'{"a":false}'),
        (b'{"a":null}', b'{"a":null}'),
        (b'{"a":[1,{"a":2}]}', b'{"a":[]}'),
        (b'{"a":{"x":"secret"} }', b'{"a":{} }'),
        (b'[{"a":"x"}, {"a":"y"}]', b'[{"a":""}, {"a":""}]'),
        ('{"ü":"\\u00e9", "a":"é"}'.encode(), '{"ü":"\\u00e9", "a":""}'.encode()),
    ],
)
def test_a_masked_field_is_empty_and_every_other_byte_stays(value: bytes, made: bytes) -> None:
    """By its type, as Connect's MaskField."""
    assert made == make(Rule("r", (".*",), masked=(("a",),)), value)


def test_a_value_that_does_not_change_stays_the_same_object() -> None:
    """Its batch is not built anew."""
    for value in (b'{"b":1}', b'{"a":""}', None):
        assert value is make(Rule("r", (".*",), masked=(("a",),)), value)


def test_a_hashed_field_is_the_hmac_of_its_content() -> None:
    """However a string is escaped; null stays null; other values count as they are written."""
    rule = Rule("r", (".*",), hashed=(("a",), ("b",)), key=KEY)
    value = b'{"a":"\\u00e9","b":17,"c":1}'
    assert b'{"a":%s,"b":%s,"c":1}' % (hashed("é"), hashed("17")) == make(rule, value)
    assert b'{"a":null}' == make(rule, b'{"a":null}')


@pytest.mark.parametrize(
    ("rule", "key", "value", "dropped"),
    [
        (Rule("r", (".*",), drop_key="test-.*"), b"test-1", b"\xff", True),
        (Rule("r", (".*",), drop_key="test-.*"), b"a test-1", None, False),
        (Rule("r", (".*",), drop_key=".*"), None, b"", False),
        (Rule("r", (".*",), drop_field=FieldMatches(("a", "b"))), None, b'{"a":{"b":null}}', True),
        (Rule("r", (".*",), drop_field=FieldMatches(("a", "b"))), None, b'{"a":{"c":1}}', False),
        (Rule("r", (".*",), drop_field=FieldMatches(("a",), "x|1")), None, b'{"a":"x"}', True),
        (Rule("r", (".*",), drop_field=FieldMatches(("a",), "x|1")), None, b'{"a":1}', True),
        (Rule("r", (".*",), drop_field=FieldMatches(("a",), "x|1")), None, b'{"a":"xx"}', False),
        (Rule("r", (".*",), drop_field=FieldMatches(("a",), "x|1")), None, None, False),
    ],
)
def test_what_is_dropped(rule: Rule, key: bytes | None, value: bytes | None, dropped: bool) -> None:
    """By the key, or by a field of the value; patterns are Java's, and match as a whole."""
    assert (DROPPED if dropped else value) is make(rule, value, key)


def test_a_value_that_is_no_json() -> None:
    """The rule says what becomes of it; its text is never shown."""
    for policy, made in ((NotJson.PASS, b"secret{"), (NotJson.DROP, DROPPED)):
        assert made == make(Rule("r", (".*",), masked=(("a",),), not_json=policy), b"secret{")
    for value in (b"secret{", b"\xff", b"", b"\x00\x00\x00\x00\x01{}"):
        with pytest.raises(RefusedValueError, match=r"^rule r: the value is no JSON$"):
            make(Rule("r", (".*",), masked=(("a",),)), value)


def test_a_value_nested_too_deeply_never_passes() -> None:
    """Who reads it may find the field in it."""
    rule = Rule("r", (".*",), masked=(("a",),), not_json=NotJson.PASS)
    with pytest.raises(RefusedValueError, match="too deeply"):
        make(rule, b"[" * 200_000)


def test_rules_follow_each_other_up_to_one_that_drops() -> None:
    """The second sees what the first left."""
    mask = Rule("a", (".*",), masked=(("a",),))
    drop = Rule("b", (".*",), drop_field=FieldMatches(("a",), ""))
    fails = Rule("c", (".*",), masked=(("b",),))
    assert DROPPED is applied([mask, drop, fails])(None, b'{"a":"x"}')


def test_a_key_shows_itself_nowhere() -> None:
    """Neither printed nor in a rule's description, which holds its digest."""
    rule = Rule("r", (".*",), hashed=(("a",),), key=KEY)
    assert "0123" not in f"{rule}{rule.description}"
    assert rule.description != Rule("r", (".*",), hashed=(("a",),), key=HmacKey(b"f" * 16)).description


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Rule("slow", (".*",), drop_key=".*a.*a.*b"), None),
        (
            Rule("slow", (".*",), drop_field=FieldMatches(("f",), ".*a.*a.*b")),
            b'{"f":"%s"}' % (b"a" * 100_000),
        ),
    ],
)
def test_a_record_that_takes_too_long_to_match_fails_its_rule(rule: Rule, value: bytes | None) -> None:
    """It would hold a lane for hours."""
    with pytest.raises(RefusedValueError, match=r"rule slow: a pattern takes longer than 0.5 s to match"):
        make(rule, value, b"a" * 100_000)

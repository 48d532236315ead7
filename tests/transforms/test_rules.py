"""What record rules make of keys and values."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from twinlog.transforms.chain import Chain
from twinlog.transforms.routes import Partitioner, Route
from twinlog.transforms.rules import (
    DROPPED,
    FieldMatches,
    HmacKey,
    NotJson,
    RefusedValueError,
    Routed,
    Rule,
    applied,
)

SECRET = b"0123456789abcdef"
KEY = HmacKey(SECRET)


def make(rule: Rule, value: bytes | None, key: bytes | None = None) -> bytes | Routed | None:
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


ALERTS = Route("alerts", Partitioner.KEY)


def routing(**more: Any) -> Rule:
    """Return a rule that routes."""
    return Rule("r", (".*",), route=ALERTS, **more)


@pytest.mark.parametrize(
    ("rule", "key", "value", "routed"),
    [
        (routing(), None, b"\xff", b"\xff"),
        (routing(), b"k", None, None),
        (routing(route_key="a-.*"), b"a-1", b"\xff", b"\xff"),
        (routing(route_key="a-.*"), b"b-1", b"\xff", DROPPED),
        (routing(route_key="a-.*"), None, b"{}", DROPPED),
        (routing(route_field=FieldMatches(("s",), "high")), None, b'{"s":"high"}', b'{"s":"high"}'),
        (routing(route_field=FieldMatches(("s",), "high")), None, b'{"s":"low"}', DROPPED),
        (routing(route_field=FieldMatches(("s",))), None, None, DROPPED),
        (routing(route_key="a", route_field=FieldMatches(("s",))), b"a", b"\xff", b"\xff"),
        (routing(route_key="a", route_field=FieldMatches(("s",))), b"b", b'{"s":1}', b'{"s":1}'),
        (routing(route_field=FieldMatches(("s",)), masked=(("s",),)), None, b'{"s":"x"}', b'{"s":""}'),
        (routing(masked=(("s",),)), None, None, None),
        (routing(route_field=FieldMatches(("s",)), not_json=NotJson.PASS), None, b"\xff", DROPPED),
        (routing(masked=(("s",),), not_json=NotJson.PASS), None, b"\xff", b"\xff"),
    ],
)
def test_what_is_routed(rule: Rule, key: bytes | None, value: bytes | None, routed: bytes | None) -> None:
    """Without a condition everything, else by key or field as they came; DROPPED stands for what stays in the copy."""
    made = make(rule, value, key)
    assert (value if routed is DROPPED else Routed(ALERTS, routed)) == made


def test_what_a_rule_drops_is_not_routed() -> None:
    """By key, by field, or as no JSON."""
    assert DROPPED is make(routing(drop_key="x"), b"{}", b"x")
    assert DROPPED is make(routing(drop_field=FieldMatches(("d",))), b'{"d":1}')
    assert DROPPED is make(routing(masked=(("a",),), not_json=NotJson.DROP), b"no json")


def test_no_rule_sees_what_an_earlier_one_routed_and_it_keeps_what_was_masked() -> None:
    """The first that routes decides where to."""
    mask = Rule("a", (".*",), masked=(("a",),))
    other = Rule("c", (".*",), route=Route("others", Partitioner.SAME))
    apply = applied([mask, routing(route_key="k"), other, Rule("d", (".*",), masked=(("b",),))])
    value, left = b'{"a":"x","b":1}', b'{"a":"","b":1}'
    assert Routed(ALERTS, left) == apply(b"k", value)
    assert Routed(Route("others", Partitioner.SAME), left) == apply(None, value)


def test_a_route_makes_another_chain_and_no_route_the_one_of_before() -> None:
    """A flow that was updated goes on with the chain that its ledger notes; place, partitioner and conditions count."""
    plain = Chain(rules=(Rule("r", (".*",), masked=(("a",),)),))
    assert "00fdbe2e87ac95df" == plain.print
    chains = [
        Chain(rules=(rule,))
        for rule in (
            routing(),
            Rule("r", (".*",), route=Route("alerts", Partitioner.SAME)),
            Rule("r", (".*",), route=Route("other", Partitioner.KEY)),
            routing(route_key="a"),
            routing(route_field=FieldMatches(("a",))),
        )
    ]
    assert 5 == len({it.print for it in chains})
    assert all(it.drops and it.routes for it in chains)
    assert ((), (ALERTS,)) == (plain.routes, Chain(rules=(routing(), routing(route_key="b"))).routes)

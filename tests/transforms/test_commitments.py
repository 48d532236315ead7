"""A commitment binds what a rule hides to the record's place, and gives nothing of it away."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.kafka_types import TopicPartition
from twinlog.transforms.chain import Chain
from twinlog.transforms.commitments import Commitment, commitments
from twinlog.transforms.rules import Hidden, HmacKey, NotJson, Rule, applied

PLACE = TopicPartition("orders", 3)
KEY = HmacKey(b"0123456789abcdef")
RULE = Rule(
    "pii", ("orders",), masked=(("card", "number"), ("mails",)), hashed=(("id",),), key=KEY, commit_key=KEY
)
VALUE = '{"id":"17", "card":{"number" : 4111.0,"x":1}, "name":"ü", "mails":["é"]}'.encode()


def of(value: bytes, rule: Rule = RULE, place: TopicPartition = PLACE, offset: int = 12) -> list[Commitment]:
    hidden: Hidden = []
    applied([replace(rule, not_json=NotJson.PASS)])(None, value, hidden)
    return commitments(hidden, place, offset, value)


def test_it_is_what_the_page_says():
    """The HMAC of a JSON text with the record's place and all hidden fields as they are written."""
    text = (
        '["twinlog-commitment","pii","orders",3,12,'
        '[["id","\\"17\\""],["card.number","4111.0"],["mails","[\\"\\u00e9\\"]"]]]'
    )
    digest = hmac.new(KEY.secret, text.encode(), hashlib.sha256).hexdigest()
    (found,) = of(VALUE)
    assert f"pii/orders/3/12/{digest}" == str(found)
    assert found == Commitment.parse(str(found).encode())


@pytest.mark.parametrize(
    "other",
    [
        of(VALUE.replace(b'"17"', b"17")),
        of(VALUE.replace(b"4111.0", b"4111")),
        of(VALUE, place=TopicPartition("orders", 4)),
        of(VALUE, place=TopicPartition("payments", 3)),
        of(VALUE, offset=13),
        of(VALUE, replace(RULE, name="other")),
        of(VALUE, replace(RULE, commit_key=HmacKey(b"fedcba9876543210"))),
    ],
)
def test_another_content_place_rule_or_key_is_another_commitment(other):
    """A type counts, too, and a number as it is written."""
    assert of(VALUE)[0].hmac != other[0].hmac


def test_what_is_not_hidden_does_not_count():
    """Other fields may change; a value without hidden fields, or that is no JSON, has no commitment."""
    assert of(VALUE) == of(VALUE.replace("ü".encode(), b"another"))
    assert [[]] * 2 == [of(it) for it in (b'{"name":1}', b"no json")]


def test_each_rule_commits_to_what_the_source_holds():
    """Not to what rules before it left; what is too deep for a rule alone has no fields for it."""
    rules = [
        replace(RULE, name=name, masked=(path,), hashed=())
        for name, path in (("a", ("b",)), ("b", ("b", "c")))
    ]
    for inner, told in ((b'{"c":1}', ["a", "b"]), (b"[" * 900 + b"]" * 900, ["a"])):
        value, hidden = b'{"b":%s}' % inner, []
        applied(rules)(None, value, hidden)
        assert told == [rule.name for rule, _ in hidden]
        alone = [of(value, rule)[0] for rule in rules[: len(told)]]
        assert alone == commitments(hidden, PLACE, 12, value)


@given(
    st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9._-]+", fullmatch=True),
    st.integers(0, 1 << 62),
)
def test_a_header_is_read_as_it_was_written(rule, topic, offset):
    """Law: round trip."""
    made = Commitment(rule, topic, offset % 1000, offset, "0" * 64)
    assert made == Commitment.parse(str(made).encode())


@pytest.mark.parametrize(
    "text", [b"", b"a/b/c", b"r/t/01/2/x", b"r/t/1/+2/x", b"r/t/1/2/x/y", b"r/t/1/ 2/x", b"\xff/t/1/2/x"]
)
def test_another_header_of_that_name_is_none(text):
    """Somebody else's header is not taken for ours."""
    assert Commitment.parse(text) is None


def test_it_makes_another_chain_and_only_then():
    """With a commitment the name of the rule counts; without, the print is what it was before there were any."""
    plain = replace(RULE, commit_key=None)
    prints = [Chain(rules=(it,)).print for it in (plain, RULE, replace(RULE, name="x"))]
    assert 3 == len(set(prints))
    assert prints[0] == Chain(rules=(replace(plain, name="x"),)).print
    assert Chain(rules=(replace(RULE, key=None, hashed=()),)).holds_secrets
    assert "0123456789abcdef" not in repr(RULE)
    assert json.loads(json.dumps(RULE.description))[-2:] == ["pii", KEY.digest]

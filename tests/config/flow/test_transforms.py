"""The keys of transforms: what a file with them is read as, and what is refused, with the line."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.config.explain import explain
from twinlog.config.flow.load import load, resolve
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ConfigError
from twinlog.jsonable import to_json
from twinlog.transforms.chain import NO_CHAIN
from twinlog.transforms.rules import FieldMatches, HmacKey, NotJson, Rule

MINIMAL = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
KEY = "sixteen characters and more"
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
Reading = Callable[..., FlowSettings]


@pytest.fixture
def read(tmp_path: Path) -> Reading:
    """Read lines below those of a minimal file, the first of them its fifth."""

    def reading(lines: str, **environ: str) -> FlowSettings:
        path = tmp_path / "mm2.properties"
        path.write_text(MINIMAL + lines)
        return load(path, environ={"TWINLOG_STRICT": "1", "KEY": KEY, **environ}).flows["A->B"]

    return reading


def rule(**values: str) -> str:
    """Return the lines of a rule `pii` for `orders`; a key's dots as underscores."""
    lines = {"topics": "orders", **values}
    return "".join(
        f"A->B.twinlog.transform.rules.pii.{key.replace('_', '.')} = {value}\n"
        for key, value in lines.items()
    )


def test_rules_in_the_order_of_their_names(read: Reading) -> None:
    """Of the top level or of the flow; lists; a field with and without a pattern; a key by reference."""
    flow = read(
        "twinlog.transform.rules.b.topics = orders.*, payments\ntwinlog.transform.rules.b.mask = card.number, name\n"
        "twinlog.transform.rules.b.hash = id\ntwinlog.transform.rules.b.hash.key = ${env:KEY}\n"
        "A->B.twinlog.transform.rules.a.topics = orders\nA->B.twinlog.transform.rules.a.drop.if.field = test\n"
        "A->B.twinlog.transform.rules.a.not.json = pass\n"
        "twinlog.transform.rules.c.topics = x\ntwinlog.transform.rules.c.drop.if.field = a.b=x|y\n"
        "twinlog.transform.rules.c.drop.if.key.matches = test-.*\n"
    )
    assert flow.transforms.rules == (
        Rule("a", ("orders",), drop_field=FieldMatches(("test",)), not_json=NotJson.PASS),
        Rule(
            "b",
            ("orders.*", "payments"),
            masked=(("card", "number"), ("name",)),
            hashed=(("id",),),
            key=HmacKey(KEY.encode()),
        ),
        Rule("c", ("x",), drop_key="test-.*", drop_field=FieldMatches(("a", "b"), "x|y")),
    )
    assert ["a", "b"] == [it.name for it in flow.chain_of("orders", "A.orders").rules]
    assert flow.chain_of("A.orders", "A.A.orders") == NO_CHAIN
    assert flow == pickle.loads(pickle.dumps(flow))


def test_a_key_is_nowhere_shown_and_another_key_is_another_chain(read: Reading) -> None:
    """Neither as text nor as JSON; `explain` masks it."""
    lines = rule(hash="id", hash_key="${env:KEY}")
    flow = read(lines)
    assert KEY not in f"{flow}{json.dumps(to_json(flow.transforms))}"
    assert flow.transforms.holds_secrets
    assert flow.transforms.print != read(lines, KEY="another key of more than sixteen").transforms.print


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (rule(masks="x"), ":6: A->B.twinlog.transform.rules.pii.masks: is unknown"),
        (
            rule(),
            "rules.pii.topics: rule pii does nothing; add drop.if.key.matches, drop.if.field, mask, hash",
        ),
        (rule(topics="", mask="x"), "rule pii names no topics"),
        (
            rule(topics="a[", mask="x"),
            ":5: A->B.twinlog.transform.rules.pii.topics: the regular expression 'a['",
        ),
        (rule(mask=""), "rules.pii.mask: is empty"),
        (rule(mask="a..b"), "has a path with an empty name"),
        (rule(mask="a, a.b"), "a.b lies in a, which the rule replaces, too"),
        (rule(mask="a", hash="a", hash_key="${env:KEY}"), "a lies in a"),
        (rule(hash="a"), "rules.pii.hash: needs twinlog.transform.rules.pii.hash.key"),
        (rule(mask="a", hash_key="${env:KEY}"), "has no effect without twinlog.transform.rules.pii.hash"),
        (
            rule(hash="a", hash_key=KEY),
            "hash.key: is written out: who reads this file could undo what the rule does",
        ),
        (rule(mask="a", commit_key="${env:KEY}"), "commit.key: has left twinlog; remove the line"),
        (
            rule(mask="a", route_to="alerts"),
            "route.to: has left twinlog; remove the rule's route lines: its records are copied like others",
        ),
        (rule(hash="a", hash_key="${env:SHORT}"), "is shorter than 16 characters: it could be guessed"),
        (rule(mask="${env:KEY}"), "rules.pii.mask: is a reference"),
        (rule(mask="a", not_json="skip"), "'skip' is none of fail, pass, drop"),
        (rule(drop_if_key_matches="a["), "drop.if.key.matches: the regular expression 'a['"),
        (rule(drop_if_field="=x"), "names no field"),
        (rule(drop_if_field="x=a["), "drop.if.field: the regular expression 'a['"),
        ("twinlog.transform.rule.x.mask = a\n", "twinlog.transform.rule.x.mask: is unknown"),
        ("twinlog.transform.rules.x = a\n", "twinlog.transform.rules.x: is unknown"),
        ("twinlog.transform = python:json.loads\n", "twinlog.transform: has left twinlog; remove the line"),
        ("twinlog.transform.topics = a\n", "twinlog.transform.topics: has left twinlog; remove the line"),
    ],
)
def test_a_mistake_has_its_line(lines: str, says: str, read: Reading) -> None:
    """Nothing of it is copied unmasked by accident: each is an error, also a key that is not known."""
    with pytest.raises(ConfigError) as refused:
        read(lines, SHORT="x" * 15)
    assert says in str(refused.value)


def test_heartbeats_are_never_read(read: Reading) -> None:
    """A rule for all topics does not stop them."""
    flow = read(rule(topics=".*", mask="a"))
    assert (True, False) == (
        bool(flow.chain_of("orders", "A.orders")),
        bool(flow.chain_of("heartbeats", "A.heartbeats")),
    )


def test_what_is_not_on_this_machine_is_no_mistake_for_explain(tmp_path: Path) -> None:
    """The key of a rule; its line is listed."""
    path = tmp_path / "mm2.properties"
    path.write_text(f"{MINIMAL}{rule(hash='id', hash_key='${env:NOT_HERE}')}")
    explanation = explain(resolve(path, elsewhere=True, environ={"TWINLOG_STRICT": "1"}))
    assert 1 == len(explanation.unresolved), explanation.unresolved

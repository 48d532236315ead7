"""The keys `transforms.*` and `predicates.*`, by Kafka Connect's rules."""

from __future__ import annotations

import pytest

from twinlog.transforms.chain import (
    DropHeaders,
    Filter,
    HasHeaderKey,
    RecordIsTombstone,
    Step,
    TopicNameMatches,
)
from twinlog.transforms.connect import Mistake, read_steps

PACKAGE = "org.apache.kafka.connect.transforms."


def read(text: str) -> tuple[tuple[Step, ...], tuple[Mistake, ...]]:
    """Read a chain from lines `key=value`, spaces between them."""
    properties = dict(line.split("=", 1) for line in text.split())
    lists = [tuple(filter(None, properties.pop(key, "").split(","))) for key in ("transforms", "predicates")]
    return read_steps(*lists, properties)


def test_keys_of_another_name_and_of_plugins_are_known() -> None:
    """Names may have dots, and Connect may be told the version of a class (KIP-891)."""
    chain = read(
        "transforms=a,a.b transforms.a.type=Filter transforms.a.predicate=p transforms.a.plugin.version=4"
        " transforms.a.b.type=DropHeaders transforms.a.b.headers=x"
        " predicates=p predicates.p.type=RecordIsTombstone predicates.p.plugin.version=4"
    )
    assert ((Step(Filter(), RecordIsTombstone()), Step(DropHeaders(("x",)))), ()) == chain


def test_a_chain_as_a_file_of_mm2_has_it() -> None:
    """Full names and Connect's aliases; predicates; negate in any case."""
    chain = read(
        f"transforms=a,b,c transforms.a.type={PACKAGE}Filter transforms.a.predicate=gone"
        " transforms.b.type=DropHeaders transforms.b.headers=x,y transforms.b.predicate=orders"
        " transforms.b.negate=TRUE transforms.c.type=Filter transforms.c.predicate=marked"
        f" predicates=gone,orders,marked predicates.gone.type={PACKAGE}predicates.RecordIsTombstone"
        " predicates.orders.type=TopicNameMatches predicates.orders.pattern=A[.]orders.*"
        " predicates.marked.type=HasHeaderKey predicates.marked.name=test"
    )
    expected = (
        Step(Filter(), RecordIsTombstone()),
        Step(DropHeaders(("x", "y")), TopicNameMatches("A[.]orders.*"), negate=True),
        Step(Filter(), HasHeaderKey("test")),
    )
    assert (expected, ()) == chain


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("transforms=a", "transforms", "needs transforms.a.type"),
        ("transforms=a,a transforms.a.type=Filter", "transforms", "names a twice"),
        (
            "transforms=a transforms.a.type=Filter transforms.a.predicat=p",
            "transforms.a.predicat",
            "unknown to Filter",
        ),
        (
            f"transforms=a transforms.a.type={PACKAGE}Filter transforms.a.headers=x",
            "transforms.a.headers",
            "unknown to Filter",
        ),
        (
            "transforms=a transforms.a.type=Filter transforms.a.predicate=p predicates=p"
            " predicates.p.type=RecordIsTombstone predicates.p.name=x",
            "predicates.p.name",
            "unknown to RecordIsTombstone",
        ),
        ("transforms=a transforms.a.type=com.x.Mine", "transforms.a.type", "no transform of Kafka Connect"),
        (
            "transforms=a transforms.a.type=MaskField$Value",
            "transforms.a.type",
            "it works on the fields of a struct or map, and MM2's keys and values are bytes",
        ),
        ("transforms=a transforms.a.type=MaskField", "transforms.a.type", "is abstract"),
        ("transforms=a transforms.a.type=Cast$Key", "transforms.a.type", "is no longer bytes"),
        ("transforms=a transforms.a.type=InsertHeader", "transforms.a.type", "header that it inserts"),
        ("transforms=a transforms.a.type=RegexRouter", "transforms.a.type", "one copy for each topic"),
        ("transforms=a transforms.a.type=DropHeaders", "transforms", "needs transforms.a.headers"),
        (
            "transforms=a transforms.a.type=DropHeaders transforms.a.headers=",
            "transforms.a.headers",
            "is empty",
        ),
        (
            "transforms=a transforms.a.type=SetSchemaMetadata$Key transforms.a.schema.name=n",
            "transforms.a.type",
            "it fails on every schema that is not a struct's",
        ),
        (
            "transforms=a transforms.a.type=Filter transforms.a.predicate=p",
            "transforms.a.predicate",
            "p is not listed in predicates",
        ),
        (
            "transforms=a transforms.a.type=Filter transforms.a.negate=true",
            "transforms.a.negate",
            "no transforms.a.predicate to be negated",
        ),
        (
            "transforms=a transforms.a.type=Filter transforms.a.predicate=p transforms.a.negate=yes"
            " predicates=p predicates.p.type=RecordIsTombstone",
            "transforms.a.negate",
            "'yes' is neither true nor false",
        ),
        (
            "transforms=a transforms.a.type=Filter transforms.a.predicate=p predicates=p",
            "predicates",
            "needs predicates.p.type",
        ),
        (
            "transforms=a transforms.a.type=Filter transforms.a.predicate=p predicates=p"
            " predicates.p.type=TopicNameMatches predicates.p.pattern=a(",
            "predicates.p.pattern",
            "the regular expression 'a('",
        ),
        (
            "transforms=a transforms.a.type=Filter transforms.a.predicate=p predicates=p"
            " predicates.p.type=com.x.Mine",
            "predicates.p.type",
            "no predicate of Kafka Connect",
        ),
    ],
)
def test_what_connect_refuses_or_cannot_do_on_bytes_is_refused_in_one_line(
    text: str, key: str, says: str
) -> None:
    """The key, and why."""
    (mistake,) = read(text)[1]
    assert (key, True) == (mistake.key, mistake.fatal)
    assert says in mistake.message


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        (
            "predicates=p predicates.p.type=RecordIsTombstone",
            "predicates",
            "no transform uses the predicate p",
        ),
        ("transforms.a.type=Filter", "transforms.a.type", "transforms does not list its name"),
    ],
)
def test_what_has_no_effect_is_a_warning(text: str, key: str, says: str) -> None:
    """Connect takes both without a word."""
    chain, (mistake,) = read(text)
    assert ((), key, False) == (chain, mistake.key, mistake.fatal)
    assert says in mistake.message

"""Offsets as other tools write them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.client.offset_documents import Form, OffsetDocument, read_document
from twinlog.client.pairs import Ask
from twinlog.errors import UsageError

SPARK_LOG = (
    'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}\n{"orders":{"0":42,"1":7}}\n-\n'
    '{"pay":{"0":1}}'
)


@pytest.mark.parametrize(
    ("text", "form", "entries"),
    [
        (
            '{"orders": {"0": 42, "1": -1, "2": -2}}',
            Form.SPARK,
            [
                Ask("orders", 0, 42),
                Ask("orders", 1, -1, special=True),
                Ask("orders", 2, -2, special=True),
            ],
        ),
        (SPARK_LOG, Form.SPARK_LOG, [Ask("orders", 0, 42), Ask("orders", 1, 7), Ask("pay", 0, 1)]),
        ('[{"topic": "orders", "partition": 0, "offset": 42}]', Form.LIST, [Ask("orders", 0, 42)]),
        (
            '{"partitions": [{"topic": "orders", "partition": 1, "offset": 3}], "version": 1}',
            Form.LIST,
            [Ask("orders", 1, 3)],
        ),
        ("orders,0,42\n\norders, 1, 43\n", Form.CSV, [Ask("orders", 0, 42), Ask("orders", 1, 43)]),
        ('"g,1/é:x",orders,0,42', Form.CSV, [Ask("orders", 0, 42, "g,1/é:x")]),
    ],
)
def test_forms_are_told_apart(text: str, form: Form, entries: list[Ask]) -> None:
    """By what they look like."""
    found = read_document(text, "f")
    assert (form, tuple(entries)) == (found.form, found.entries)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f is empty"),
        ("[]", "holds no offset"),
        ("{", "line 1 is no JSON"),
        ("[1]", "entry 0 has not topic"),
        ('[{"topic": "a", "partition": 0, "offset": -1}]', "entry 0: offset -1 is negative"),
        ('{"a": {"0": -3}}', "key 'a', '0': offset -3 is negative"),
        ('{"a": {"x": 3}}', "partition 'x' is no partition number"),
        ('{"a": {"0": 1.5}}', "offset 1.5 is no whole number"),
        ('{"a": {"0": true}}', "offset True is no whole number"),
        ('{"orders-0": 3}', "is JSON of no form that is known"),
        ("a,0", "line 1 is neither topic,partition,offset"),
        ("a,0,1\nb,0,z", "line 2: offset 'z'"),
        ("v1\n{}", "is cut off"),
        ("v1\n{}\n{nope", "line 3 is no JSON"),
        ('v1\n{}\n{"batchId": 3}', "line 3 is not a Kafka source's offsets"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    """Where, and what."""
    with pytest.raises(UsageError) as error:
        read_document(text, "f")
    assert words in error.value.message


@pytest.mark.parametrize(
    "text",
    [
        '{"orders": {"0": 42, "1": -1}}\n',
        SPARK_LOG,
        '[{"topic": "orders", "partition": 0, "offset": 42}]\n',
        "orders,0,42\n",
        '"g,1",orders,0,42\n',
    ],
)
def test_unchanged_entries_write_the_same(text: str) -> None:
    """What is around the offsets is kept."""
    found = read_document(text, "f")
    assert text == found.write(found.entries)


def test_translated_entries_take_their_places() -> None:
    """Other names, other offsets, the same form."""
    found = read_document(SPARK_LOG, "f")
    moved = [replace(it, topic=f"A.{it.topic}", offset=it.offset + 1) for it in found.entries]
    lines = found.write(moved).splitlines()
    assert '{"A.orders":{"0":43,"1":8}}' == lines[2]
    assert ("-", '{"A.pay":{"0":2}}') == (lines[3], lines[4])


entries = st.lists(
    st.builds(
        Ask,
        st.text("abé.-", min_size=1, max_size=5),
        st.integers(0, 99),
        st.integers(0, 1 << 62),
        st.text('g,:/é" ', max_size=5).map(str.strip),
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda it: (it.topic, it.partition),
)


@given(entries, st.sampled_from([Form.CSV, Form.LIST, Form.SPARK]))
def test_what_is_written_is_read_again(found: list[Ask], form: Form) -> None:
    """Whatever the names."""
    kept = found if form is Form.CSV else [replace(it, group="") for it in found]
    if form is Form.SPARK:
        kept = sorted(kept, key=lambda it: it.topic)
    document = OffsetDocument(form, tuple(kept))
    assert document == read_document(document.write(kept), "f")

from dataclasses import replace

from twinlog.lab.demo.comparison import SeenRecord, find_difference

RECORD = SeenRecord(b"k", b"v", (("a", b"1"), ("a", None)), (1, 1_700_000_000_000))


def test_equal_sides() -> None:
    """Nothing to say."""
    assert "" == find_difference({0: [RECORD], 1: []}, {0: [RECORD], 1: []})


def test_every_field_counts() -> None:
    """Null is not empty, and the order of headers matters."""
    for change, named in (
        ({"key": None}, "key"),
        ({"value": b""}, "value"),
        ({"headers": (("a", None), ("a", b"1"))}, "headers"),
        ({"timestamp": (1, 1)}, "timestamp"),
    ):
        other = replace(RECORD, **change)

        assert f"partition 0, record 0: {named} differs" == find_difference({0: [RECORD]}, {0: [other]})


def test_what_is_missing_or_too_much() -> None:
    """Named by partition and position."""
    assert "partition 1, record 1: missing on the target" == find_difference(
        {0: [], 1: [RECORD, RECORD]}, {0: [], 1: [RECORD]}
    )
    assert "partition 0, record 0: extra on the target" == find_difference({0: []}, {0: [RECORD]})


def test_nothing_is_not_equal() -> None:
    """Where neither side holds a record, nothing was compared."""
    for nothing in ({}, {0: [], 1: []}):
        assert "no record on either side" == find_difference(nothing, nothing)


def test_partitions_must_agree() -> None:
    """A topic that is not there has none."""
    assert "1 partitions, 0 on the target" == find_difference({0: [RECORD]}, {})

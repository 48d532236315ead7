from twinlog.airflow.xcom import MOST_ITEMS, lines_of


def test_facts_then_lists() -> None:
    """Empty values say nothing and are left out; lists in lists are counted."""
    result = {
        "flow": "A->B",
        "until_ms": None,
        "records": 0,
        "ranges": [{"topic": "orders", "error": "", "partitions": [{"partition": 0}, {"partition": 1}]}],
        "stopped": [],
        "lanes": [["orders-0", "orders-1"]],
    }

    assert [
        "flow=A->B records=0",
        "ranges: 1",
        "  topic=orders partitions=2",
        "stopped: none",
        "lanes: 1",
        "  ['orders-0', 'orders-1']",
    ] == list(lines_of(result))


def test_a_mapping_is_one_line() -> None:
    """It has no number of items: it has facts."""
    lines = list(
        lines_of({"left_out": {"internal topic": 15, "no pattern matches it": 306}, "positions": {}})
    )
    assert ["", "left_out: internal topic=15 no pattern matches it=306", "positions: none"] == lines


def test_long_lists_are_cut() -> None:
    """A flow may have ten thousand partitions."""
    lines = list(lines_of({"ranges": [{"partition": number} for number in range(MOST_ITEMS + 2)]}))

    assert ["  partition=39", "  and 2 more"] == lines[-2:]


def test_a_group_writes_no_lines_of_its_own() -> None:
    """Its name may hold line ends, and what Airflow's log would fold away."""
    lines = list(lines_of({"error": "a\nb", "groups": [{"group": "x\n::endgroup::\n"}, "y\r"]}))
    assert [r"error=a\x0ab", "groups: 2", r"  group=x\x0a::endgroup::\x0a", r"  y\x0d"] == lines

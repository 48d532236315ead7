"""What XCom keeps of a result."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from twinlog.airflow.xcom import MOST_BYTES, MOST_KEYS, all_of, short, shortened, shortened_text

HERE = "`twinlog status`"


def report(topics: int, partitions: int) -> dict[str, Any]:
    rows = [{"partition": number, "lag_records": 0} for number in range(partitions)]
    return {"flow": "A->B", "topics": [{"topic": f"t{n}", "partitions": rows} for n in range(topics)]}


def test_a_small_result_is_kept_as_it_is() -> None:
    """However its items are nested."""
    assert shortened(report(10, 29), HERE) == report(10, 29)


def test_of_a_large_one_the_first_items_are_kept_and_the_others_are_counted() -> None:
    """Ten thousand partitions are not written every minute."""
    kept = shortened(report(200, 50), HERE)
    assert [{"topic": f"t{n}", "partitions": []} for n in range(100)] == kept["topics"]
    assert {"topics": 100, "partitions": 200 * 50} == kept["not_shown"]
    assert ("A->B", 200, HERE) == (kept["flow"], all_of(kept, "topics"), kept["whole_in"])
    assert 10 == all_of(report(10, 1), "topics")


def test_lists_in_lists_are_emptied_too() -> None:
    """A plan names the partitions of each lane."""
    kept = shortened({"lanes": [[f"orders-{n}" for n in range(5_000)]]}, HERE)
    assert ([[]], {"lanes": 5_000}) == (kept["lanes"], kept["not_shown"])


def test_names_as_keys_are_a_list_too() -> None:
    """Counts by topic are cut as topics are, and counted under the name of the whole."""
    kept = shortened({"counts": {f"topic-{n}": [n] for n in range(5_000)}}, HERE)
    assert (100, {"counts": 2 * (5_000 - 100)}) == (len(kept["counts"]), kept["not_shown"])


json_values = st.recursive(
    st.integers() | st.text(max_size=20) | st.just("x" * 9_000),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=5), inner, max_size=9),
    max_leaves=20,
)


@given(
    st.dictionaries(st.text(max_size=9), json_values | st.lists(st.just("y" * 900), max_size=99), max_size=20)
)
def test_no_result_of_few_fields_is_large(result: dict[str, Any]) -> None:
    """A law: with what is in lists as long as it likes."""
    assert MOST_KEYS > 20
    assert len(json.dumps(shortened(result, HERE)).encode()) <= MOST_BYTES


def test_long_texts_say_how_much_is_missing() -> None:
    """In characters and in lines."""
    assert ("abc", "ab ... and 1 characters more") == (short("abc", 3), short("abc", 2))
    lines = ["x" * 99] * 1_000
    *kept, last = shortened_text(lines, HERE).splitlines()
    assert f"... and {1_000 - len(kept)} lines more: {HERE}" == last
    assert len(shortened_text(lines, HERE)) < MOST_BYTES + 100
    assert "a\nb" == shortened_text(["a", "b"], HERE)

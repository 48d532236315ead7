"""What XCom keeps of a result."""

from typing import Any

from twinlog.airflow.xcom import FIRST_ITEMS, WHOLE_ITEMS, all_of, shortened


def report(topics: int, partitions: int) -> dict[str, Any]:
    rows = [{"partition": number, "lag_records": 0} for number in range(partitions)]
    return {"flow": "A->B", "topics": [{"topic": f"t{n}", "partitions": rows} for n in range(topics)]}


def test_a_small_result_is_kept_as_it_is() -> None:
    """Up to so many items, however they are nested."""
    assert WHOLE_ITEMS == 10 + 290
    assert shortened(report(10, 29)) == report(10, 29)


def test_of_a_large_one_the_first_items_are_kept_and_the_others_are_counted() -> None:
    """Ten thousand partitions are not written every minute."""
    kept = shortened(report(200, 50))
    assert [{"topic": f"t{n}", "partitions": []} for n in range(FIRST_ITEMS)] == kept["topics"]
    assert {"topics": 200 - FIRST_ITEMS, "partitions": 200 * 50} == kept["not_shown"]
    assert ("A->B", 200) == (kept["flow"], all_of(kept, "topics"))
    assert 10 == all_of(report(10, 1), "topics")


def test_lists_in_lists_are_emptied_too() -> None:
    """A plan names the partitions of each lane."""
    kept = shortened({"lanes": [[f"orders-{n}" for n in range(5_000)]]})
    assert {"lanes": [[]], "not_shown": {"lanes": 5_000}} == kept

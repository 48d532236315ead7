"""Which datasets a copy has read and written."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twinlog.airflow.lineage import Lineage, lineage_of_copy


def cluster(host: str) -> SimpleNamespace:
    return SimpleNamespace(connection=SimpleNamespace(bootstrap=((host, 9092), ("other", 1))))


FLOW = SimpleNamespace(source=cluster("a"), target=cluster("b"))


def part(topic: str, number: int, copied: int) -> dict:
    return {"topic": topic, "remote_topic": f"A.{topic}", "partition": number, "copied_records": copied}


def test_topics_with_copied_records_are_datasets() -> None:
    """Each once, named by the first bootstrap server; an idle topic is none."""
    outcome = {"partitions": [part("orders", 0, 3), part("orders", 1, 2), part("idle", 0, 0)]}
    assert Lineage((("kafka://a:9092", "orders"),), (("kafka://b:9092", "A.orders"),)) == lineage_of_copy(
        FLOW, outcome
    )


def test_an_error_has_none() -> None:
    """A job that died has no partitions."""
    assert Lineage() == lineage_of_copy(FLOW, {"error": {"kind": "TransientError"}})


@pytest.mark.airflow
def test_openlineage_is_told() -> None:
    """If it is installed."""
    pytest.importorskip("airflow.providers.openlineage.extractors")
    told = Lineage((("kafka://a:9092", "orders"),), (("kafka://b:9092", "A.orders"),)).facets()
    assert [("kafka://a:9092", "orders"), ("kafka://b:9092", "A.orders")] == [
        (it.namespace, it.name) for it in (*told.inputs, *told.outputs)
    ]

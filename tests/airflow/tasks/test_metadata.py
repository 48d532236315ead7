"""A metadata plan that is too large for XCom: approved in part, applied only as it was."""

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.airflow.tasks import metadata
from twinlog.airflow.xcom import MOST_BYTES, NOT_SHOWN, shortened
from twinlog.errors import TerminalError
from twinlog.metadata.plan_file import plan_document

CLUSTERS: Any = SimpleNamespace(
    source=SimpleNamespace(cluster_id=lambda: "a"), target=SimpleNamespace(cluster_id=lambda: "b")
)
FLOW: Any = SimpleNamespace(name="A->B")


def plan(count: int) -> Any:
    return SimpleNamespace(
        document={"changes": [{"name": f"topic {n}", "to": "x" * 50} for n in range(count)]}
    )


@pytest.mark.parametrize(("now", "same"), [(5_000, True), (4_999, False)])
def test_a_large_plan_is_made_again_and_has_to_be_the_same(now, same, monkeypatch) -> None:
    """By its digest, which covers every change and the time at which it was made."""
    whole = plan_document(plan(5_000), "a", "b", 7)
    approved = shortened(whole, "there")
    assert approved[NOT_SHOWN]["changes"] + len(approved["changes"]) == 5_000
    assert len(str(approved)) < MOST_BYTES + 1_000
    monkeypatch.setattr("twinlog.metadata.sync.make_plan", lambda *_: plan(now))
    monkeypatch.setattr(metadata, "_due", lambda _: frozenset())
    if same:
        assert whole == metadata._made_again(FLOW, CLUSTERS, approved)
    else:
        with pytest.raises(TerminalError, match="approved") as raised:
            metadata._made_again(FLOW, CLUSTERS, approved)
        assert "plan-drifted" == raised.value.code

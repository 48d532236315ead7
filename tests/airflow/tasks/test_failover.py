"""The tasks around a failover: they say to the person who approves what would be done."""

from __future__ import annotations

import string
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.accepted import Amount
from twinlog.gate.accepting import keep_shown
from twinlog.judge.check import Mode
from twinlog.recovery.report import FailoverReport, PartitionAtRisk, PlacedGroup, State, TopicAtRisk
from twinlog.state.ledger import read_ledger

pytestmark = pytest.mark.airflow


def test_the_note_names_what_is_lost_and_what_is_read_again() -> None:
    """Largest losses first; what is unknown is called so, and makes no sum smaller."""
    from twinlog.airflow.tasks.failover import note, rows

    parts = tuple(PartitionAtRisk(n, 10, 10 - n, n, at_risk_records=n) for n in range(3))
    unseen = PartitionAtRisk(3, None, None, 0, unseen=True)
    groups = (
        PlacedGroup("billing", "orders", 0, 5, 4, 1),
        PlacedGroup("billing", "orders", 1, 5, None, None),
        PlacedGroup("audit", "orders", 0, 5, 5, 0, 0, exact=True),
    )
    found = FailoverReport(
        "A->B",
        "",
        Mode.PLANNED,
        State.FOLLOWING,
        True,
        (),
        (TopicAtRisk("orders", "A.orders", (*parts, unseen)),),
        groups,
    )
    assert [
        (
            "missing",
            "at least 3 records are not on the target now; one partition of orders could not be looked at",
        ),
        ("missing", "2 of orders-2, copy A.orders"),
        ("missing", "1 of orders-1, copy A.orders"),
        ("groups", "2 groups, 3 positions"),
        ("read again", "billing: 1 records of orders-0"),
        ("read again", "not known for 1 positions"),
        ("skipped", "no group is known to skip a record, and of 2 positions it is not known"),
    ] == list(rows(found))
    verdict, *_ = note(found, ("a yes costs", "nothing")).splitlines()
    assert verdict == escaped_bold(
        "A->B (planned): FOLLOWING; dry run, nothing was changed; 3 records are known to be missing on the target;"
        " one partition of orders could not be looked at; 1 group would read 1 record again, 1 group exact,"
        " not known of 1 group"
    )


def escaped_bold(text: str) -> str:
    """A line that Markdown shows as it is, in bold."""
    return "**" + "".join(f"\\{it}" if it in string.punctuation else it for it in text) + "**"


class TestDecide:
    """Modes of the form that fail nothing over."""

    @pytest.fixture
    def preview(
        self, flow: FlowSettings, target: Any, with_internal: Any, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., None]:
        """`preview(**form)` is the task, for ann."""
        from twinlog.airflow.tasks import failover

        run = SimpleNamespace(dag_id="failover", run_id="monday", triggering_user_name="ann")
        form = {"mode": "accept", "dry_run": False, "reason": "", "seen": ""}
        monkeypatch.setattr(failover, "flow_of", lambda _: flow)
        monkeypatch.setattr(failover, "opened", lambda _: nullcontext(SimpleNamespace(target=target)))

        def ask(**filled: Any) -> None:
            context = {"params": {**form, **filled}, "dag_run": run}
            monkeypatch.setattr(failover, "get_current_context", lambda: context)
            failover.preview(flow.name)

        return ask

    def test_what_a_gate_showed_is_accepted(
        self, preview: Callable[..., None], flow: FlowSettings, target: Any
    ) -> None:
        """By whom Airflow names, up to the numbers that were shown; a dry run accepts nothing."""
        from twinlog.airflow.versions import AirflowSkipException

        seen = keep_shown(flow, target, "source-dead", [Amount("known-rpo", "orders", 3, 1)])
        for dry_run in (True, False):
            assert () == read_ledger(flow, target).accepted
            with pytest.raises(AirflowSkipException, match="nothing is failed over"):
                preview(seen=seen, reason="decided in the call", dry_run=dry_run)
        who = "ann", "by Airflow, run failover/monday", "decided in the call"
        assert [(*who, "known-rpo", "orders", 3, 1)] == [
            (it.by, it.known_by, it.reason, it.check, it.subject, it.up_to, it.not_known)
            for it in read_ledger(flow, target).accepted
        ]

    @pytest.mark.parametrize(
        ("form", "words"),
        [
            ({"seen": "3f9c"}, "this needs a reason"),
            ({"mode": "abort", "reason": None}, "this needs a reason"),
            ({"seen": "3f9c", "reason": "so"}, "no look of the last day is called 3f9c"),
            ({"reason": "so", "seen": None}, "no look of the last day is called"),
        ],
    )
    def test_a_form_that_does_not_say_what_is_refused(
        self,
        preview: Callable[..., None],
        flow: FlowSettings,
        target: Any,
        form: dict[str, str | None],
        words: str,
    ) -> None:
        """Nothing is accepted."""
        with pytest.raises(TwinlogError, match=words):
            preview(**form)
        assert () == read_ledger(flow, target).accepted

"""What the task of `translate_group` does with its form."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.client.group_positions import Groups
from twinlog.client.pairs import Answer, Basis, Reason
from twinlog.client.translator import Translated
from twinlog.errors import TerminalError, UsageError

pytestmark = pytest.mark.airflow

GOOD = Answer("g,1", "A.orders", "orders", 0, 4, 9, exact=True, basis=Basis.MAP)
BAD = Answer(
    "g,1", "A.orders", "orders", 1, 400, None, reason=Reason.BEYOND_END, message="orders-1 ends at 12"
)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch):
    """`task(params, answers)` runs the task; it gives its result, what it pushed, and what was asked."""
    from twinlog.airflow.tasks import translation

    def run(params: dict[str, Any], *answers: Answer) -> SimpleNamespace:
        done = SimpleNamespace(pushed=[], asked=None, result=None, error=None)
        ti = SimpleNamespace(xcom_push=lambda key, value: done.pushed.append((key, value)))
        form = {"flow": "A->B", "groups": [], "pattern": "", "at": None} | params

        def translate(flow: object, clusters: object, groups: Groups, at_ms: int | None) -> Translated:
            done.asked = (flow, groups, at_ms)
            return Translated("A->B", answers)

        @contextmanager
        def no_clusters(flow: object):
            yield None

        monkeypatch.setattr(translation, "get_current_context", lambda: {"params": form, "ti": ti})
        monkeypatch.setattr(translation, "flow_of", {"A->B": "the flow"}.__getitem__)
        monkeypatch.setattr(translation, "opened_own", no_clusters)
        monkeypatch.setattr("twinlog.client.translator.translate_groups", translate)
        try:
            done.result = translation.translate_group("A->B")
        except TerminalError as error:
            done.error = error
        return done

    return run


def test_groups_of_the_form_are_translated(task) -> None:
    """Names, pattern and time reach the client; the answers are the XCom."""
    done = task({"groups": ["g,1"], "pattern": "bill.*", "at": "2026-01-31T12:00:00"}, GOOD)

    assert ("the flow", Groups(("g,1",), "bill.*"), 1_769_860_800_000) == done.asked
    assert [("A.orders", 9)] == [(it["topic"], it["downstream_offset"]) for it in done.result["answers"]]


def test_an_offset_without_translation_fails_the_task_and_is_shown(task) -> None:
    """The result is there all the same."""
    done = task({"groups": ["g,1"]}, GOOD, BAD)

    assert "1 of 2 offsets have no translation; first: orders-1 ends at 12" == done.error.message
    [(key, value)] = done.pushed
    assert ("return_value", 2) == (key, len(value["answers"]))


def test_a_time_that_is_none_is_wrong_usage(task) -> None:
    """The form lets it through; trying it again would not help."""
    done = task({"groups": ["g,1"], "at": "2026-01-31T12:00 or so"})

    assert isinstance(done.error, UsageError)
    assert "at: '2026-01-31T12:00 or so' is no time" == done.error.message


def test_a_form_that_names_nobody(task) -> None:
    """Nothing is asked of any cluster."""
    done = task({})

    assert isinstance(done.error, UsageError)
    assert done.asked is None

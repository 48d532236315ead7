"""What the form of the rebuild Dag must say before anything is deleted."""

from __future__ import annotations

import pytest

from twinlog.errors import UsageError

pytest.importorskip("airflow")

from twinlog.airflow.tasks.rebuilding import asked_topic

FORM = {"topic": "orders", "confirm": "orders", "dry_run": False}


def test_a_confirmed_topic_is_taken() -> None:
    """Its name stands twice; a dry run needs no confirmation."""
    assert "orders" == asked_topic(FORM)
    assert "orders" == asked_topic({**FORM, "confirm": "", "dry_run": True})


@pytest.mark.parametrize(
    ("form", "words"),
    [({**FORM, "topic": " "}, "no topic"), ({**FORM, "confirm": "order"}, "`confirm` does not say orders")],
)
def test_what_is_not_confirmed_is_refused(form: dict, words: str) -> None:
    """One line says what to fill in."""
    with pytest.raises(UsageError, match=words):
        asked_topic(form)

"""What people are told of a flow, over which channel."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.airflow.flows import CONFIG_VARIABLE

pytestmark = pytest.mark.airflow

CONTEXT = {
    "dag_run": SimpleNamespace(dag_id="own", run_id="r1"),
    "ti": SimpleNamespace(task_id="audit"),
    "exception": ValueError("not\nequal"),
}


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """A flow A->B, and two things that are wrong with it."""
    from twinlog.airflow import notifiers
    from twinlog.airflow.plugin.troubles import Tone, Trouble

    file = tmp_path / "mm2.properties"
    file.write_text("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    found = (Trouble(Tone.BAD, "A does not answer.", "look at A"), Trouble(Tone.WARN, "orders is paused."))
    monkeypatch.setattr(notifiers, "troubles_now", lambda _flow: found)


def channel(sent: list[tuple[str, str]]) -> Any:
    """A notifier as providers have them: its fields are templates, rendered in place."""
    from airflow.sdk import BaseNotifier

    class Channel(BaseNotifier):
        template_fields = ("subject", "text")

        def __init__(self) -> None:
            super().__init__()
            self.subject = "{{ twinlog_subject }}"
            self.text = "{{ twinlog_text }}"

        def notify(self, context: Any) -> None:
            sent.append((self.subject, self.text))

    return Channel()


@pytest.mark.usefixtures("configured")
def test_a_channel_says_what_is_wrong_and_what_to_do() -> None:
    """In its own templates, each time anew; no text makes a line that is not its own."""
    from twinlog.airflow.notifiers import FlowNotifier

    sent: list[tuple[str, str]] = []
    notifier = FlowNotifier(flow="A->B", channel=channel(sent))
    notifier(dict(CONTEXT))
    notifier({**CONTEXT, "exception": None})
    (subject, text), (second, _) = sent
    assert ("twinlog A->B: own.audit of run r1: not\\x0aequal", "twinlog A->B: own.audit of run r1") == (
        subject,
        second,
    )
    assert [
        "own.audit of run r1: not\\x0aequal",
        "- A does not answer. -> look at A",
        "- orders is paused.",
    ] == (text.splitlines()[:3])
    assert text.splitlines()[3].endswith("twinlog/flow/A__B")


@pytest.mark.usefixtures("configured")
def test_without_a_channel_it_is_logged(caplog) -> None:
    """As twinlog's own alarms are; a deadline tells of its run as a mapping."""
    from twinlog.airflow.notifiers import FlowNotifier

    with caplog.at_level(logging.ERROR):
        FlowNotifier(flow="A->B")({"dag_run": {"dag_id": "own", "dag_run_id": "r2"}})
    assert "A->B: own of run r2\n- A does not answer." in caplog.text


def test_what_cannot_be_read_is_what_is_wrong(tmp_path, monkeypatch) -> None:
    """Clusters that do not answer, a flow that there is not, a file that is away: people are told of it."""
    from twinlog.airflow.notifiers import body_of, troubles_now

    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "away.properties"))
    assert "away.properties" in "".join(body_of(troubles_now("A->B")))


def test_nothing_wrong_is_said_of_what_was_read() -> None:
    """In words."""
    from twinlog.airflow.notifiers import body_of

    assert [
        "Both clusters and the ledger were read just now, and tell of nothing that is wrong."
    ] == body_of(())

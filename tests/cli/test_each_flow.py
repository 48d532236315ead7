"""Several flows, of which some fail."""

import logging
from collections.abc import Mapping

import pytest

from twinlog.cli.failure import Failure
from twinlog.cli.flows import each_flow
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import ClusterUnreachable, TerminalError


def _flow(source: str, target: str) -> FlowSettings:
    return FlowSettings(*(ClusterSettings(it, "", ConnectionSettings(it, ())) for it in (source, target)))


FLOWS = (_flow("A", "B"), _flow("C", "B"), _flow("D", "B"))


def _work(failing: Mapping[str, Exception]):
    def work(flow: FlowSettings) -> str:
        if flow.name in failing:
            raise failing[flow.name]
        return f"{flow.name} done"

    return work


def _failed(flow: FlowSettings, failure: Failure) -> str:
    return f"{flow.name} {failure.code}"


def test_a_flow_that_fails_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    """Each flow has its result, and the failure its line on stderr."""
    done = each_flow(FLOWS, _work({"C->B": ClusterUnreachable("C is away", hint="look")}), _failed)
    assert done.results == ("A->B done", "C->B unreachable", "D->B done")
    assert (done.exit_code, capsys.readouterr().err) == (3, "C->B: error: C is away; look\n")


def test_the_worst_failure_decides_the_exit_code() -> None:
    """A cluster that is away weighs more than a check that says no."""
    failing = {"A->B": TerminalError("no"), "D->B": ClusterUnreachable("away")}
    assert each_flow(FLOWS, _work(failing), _failed).exit_code == 3
    assert each_flow(FLOWS, _work({"A->B": TerminalError("no")}), _failed).exit_code == 1
    assert each_flow(FLOWS, _work({}), _failed).exit_code == 0


def test_a_mistake_of_ours_is_not_hidden(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It is exit 70 and said at once; its traceback is there for --debug, and the other flows are done."""
    with caplog.at_level(logging.INFO):
        done = each_flow(FLOWS, _work({"C->B": ZeroDivisionError("by zero")}), _failed)
    assert (("A->B done", "C->B internal", "D->B done"), 70) == (done.results, done.exit_code)
    assert "C->B: error: a mistake in twinlog: ZeroDivisionError: by zero; " in capsys.readouterr().err
    assert "raise failing[flow.name]" in caplog.text

"""Several flows, of which some fail."""

import logging
import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest

from twinlog.cli.failure import Failure
from twinlog.cli.flows import each_flow, flows_at_once
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


INTERRUPTED = """
import os, signal, threading
from types import SimpleNamespace
from twinlog.cli.flows import flows_at_once

begun, ended, interrupted = [], [], threading.Event()

def work(flow):
    begun.append(flow.name)
    if len(begun) == 2:
        threading.Event().wait(0.5)  # let the main thread hand out the third
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupted.wait(30)
    ended.append(flow.name)

signal.signal(signal.SIGINT, signal.default_int_handler)
flows = [SimpleNamespace(name=name) for name in ("A->B", "C->B", "D->B")]
try:
    flows_at_once(flows, work, lambda flow, failure: None, 2, interrupted.set)
except KeyboardInterrupt:
    print("begun", *begun, end=", ended ")
    print(*sorted(ended), end=", interrupted")
"""


class TestAtOnce:
    """Flows side by side."""

    def test_they_overlap_and_keep_their_order(self) -> None:
        """Each waits until all have begun; one that fails has its own result."""
        begun = threading.Barrier(3, timeout=30)

        def work(flow: FlowSettings) -> str:
            begun.wait()
            return _work({"C->B": TerminalError("no")})(flow)

        done = flows_at_once(FLOWS, work, _failed, 3, lambda: None)
        assert (("A->B done", "C->B terminal", "D->B done"), 1) == (done.results, done.exit_code)

    def test_no_more_than_asked_for(self) -> None:
        """The third begins when one of the two before has ended."""
        running: set[str] = set()
        most = 0

        def work(flow: FlowSettings) -> str:
            nonlocal most
            running.add(flow.name)
            most = max(most, len(running))
            threading.Event().wait(0.05)
            running.remove(flow.name)
            return flow.name

        assert ("A->B", "C->B", "D->B") == flows_at_once(FLOWS, work, _failed, 2, lambda: None).results
        assert 2 == most

    def test_ctrl_c_begins_nothing_more_and_ends_what_runs(self) -> None:
        """The interruption ends what has begun, which is waited for; in a process whose signals are its own."""
        done = subprocess.run(
            [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False
        )
        assert "begun A->B C->B, ended A->B C->B, interrupted" == done.stdout.strip(), done.stderr

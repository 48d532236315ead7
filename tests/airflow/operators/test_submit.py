"""What spark-submit is started with, and which line of its output is the result."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from twinlog.errors import ConfigError
from twinlog.spark.request import MARK

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)


@pytest.mark.parametrize(
    ("connection", "master", "address"),
    [
        (None, "local[2]", "127.0.0.1"),
        (None, "spark://spark:7077", None),
        ("spark://spark:7077", "local[2]", None),
    ],
)
def test_a_local_job_listens_to_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch, connection: str | None, master: str, address: str | None
) -> None:
    """As one of the command line does; the master is that of Airflow's connection, if there is one."""
    from twinlog.airflow.operators.submit import StepSubmitHook

    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_TWINLOG_SPARK", connection)
    hook = StepSubmitHook(master=master, name="twinlog", arguments=[])
    hook._build_spark_submit_command("job.py")

    assert address == hook._env.get("SPARK_LOCAL_IP")


def test_the_driver_has_to_run_with_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """On YARN, too: in a container its result would be lost, and the task tried again and again."""
    from twinlog.airflow.operators.submit import StepSubmitHook

    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_TWINLOG_SPARK", json.dumps(connection))
    with pytest.raises(ConfigError, match=r"deploy mode cluster.*set its deploy mode to client"):
        StepSubmitHook(master="local[2]", name="twinlog", arguments=[])


@pytest.mark.parametrize("master", ["local[2]", "yarn", "spark://spark:7077"])
def test_the_mark_stands_on_no_command_line(master: str) -> None:
    """Who can see it could write the job's result."""
    from twinlog.airflow.operators.submit import StepSubmitHook

    hook = StepSubmitHook(master=master, name="twinlog", arguments=[])
    command = hook._build_spark_submit_command("job.py")
    assert hook._env[MARK] not in " ".join(command)


SPARK_SUBMIT = """#!/bin/sh
echo $$ > {folder}/pid
printf '%s\\n' 'transactional id t' '{{"twinlog": {{"state": "promoted"}}}}' '{{"twinlog": oops' '"'
printf '\\377 is no text\\n'
{then}
"""


def submitted(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str):
    """Run a spark-submit of ours through the hook."""
    from twinlog.airflow.operators.submit import StepSubmitHook

    script = folder / "spark-submit"
    script.write_text(SPARK_SUBMIT.format(folder=folder, then=then))
    script.chmod(0o755)
    hook = StepSubmitHook(master="local[1]", name="twinlog", arguments=[])
    monkeypatch.setattr(hook, "_build_spark_submit_command", lambda _job: [str(script)])
    return hook


@pytest.mark.parametrize(
    ("expected", "then"),
    [
        (None, "exit 0"),
        (None, f"""printf '{{"%s": {{"state\\n' "${MARK}" """),
        ({"state": "done"}, f"""printf '{{"%s": {{"state": "done"}}}}\\n' "${MARK}" """),
    ],
)
def test_only_the_line_of_the_job_itself_is_its_result(tmp_path: Path, monkeypatch, expected, then) -> None:
    """A producer's transactional id with a line end cannot forge one, nor end the task."""
    hook = submitted(tmp_path, monkeypatch, then)
    hook.submit("job.py")
    assert expected == hook.result
    assert hook._env[MARK] != submitted(tmp_path, monkeypatch, then)._env[MARK]


def test_a_job_does_not_outlive_the_hook(tmp_path: Path, monkeypatch) -> None:
    """Whatever broke the hook while it read the log."""
    hook = submitted(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr(hook, "_keep_result", lambda lines: (json.loads("") for _ in lines))
    with pytest.raises(ValueError, match="Expecting value"):
        hook.submit("job.py")
    hook._submit_sp.wait(10)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)

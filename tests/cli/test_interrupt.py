"""Ctrl-C at a real process: one line and exit code 130, whatever it hits, however often it is pressed."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import create_topic
from twinlog.lab.kafka.broker import EmbeddedKafka


@contextmanager
def _running(file: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Start twinlog in a process group of its own, as a shell does."""
    command = [sys.executable, "-m", "twinlog", *words, "--config", str(file)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _press(process: subprocess.Popen[str], times: int) -> tuple[int, list[str]]:
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    _, err = process.communicate(timeout=90)
    code = 130 if process.returncode == -signal.SIGINT else process.returncode  # as a shell reports both
    return code, [line for line in err.splitlines() if "JAVA_TOOL_OPTIONS" not in line]


def _none_left(group: int) -> bool:
    """Say whether all that a command started ends within ten seconds, such as its JVM."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("times", [1, 2])
def test_a_command_that_waits_for_a_broker_ends(times: int, tmp_path: Path) -> None:
    """Neither a traceback nor a cluster that cannot be reached."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {address}\nB.bootstrap.servers = {address}\n"
            "A->B.enabled = true\n"
        )
        with _running(file, "status") as process:
            silent.settimeout(60)
            accepted, _ = silent.accept()
            with accepted:
                assert (130, ["error: interrupted"]) == _press(process, times)


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize(("seconds", "times"), [(0.2, 1), (2.0, 1), (2.0, 2), (6.0, 1)])
def test_a_spark_that_starts_is_no_error(
    seconds: float,
    times: int,
    cluster_a: EmbeddedKafka,
    cluster_b: EmbeddedKafka,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """What py4j raises then is no Spark that cannot be reached, and no JVM is left behind."""
    topic = unique_topic("interrupted")
    create_topic(cluster_a, topic, 1)
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {cluster_a.bootstrap_servers}\n"
        f"B.bootstrap.servers = {cluster_b.bootstrap_servers}\nA->B.enabled = true\nA->B.topics = {topic}\n"
        "replication.factor = 1\n"
    )
    with _running(file, "run", "--for", "5m") as process:
        assert process.stderr is not None
        while "opening a Spark session" not in process.stderr.readline():
            pass
        time.sleep(seconds)
        if process.poll() is None and (code_and_lines := _press(process, times)):
            code, lines = code_and_lines
            assert [] == [line for line in lines if re.search("Traceback|py4j|Exception", line)], lines
            assert code == 130 or "ending on SIGINT; what is committed counts" in lines
        assert _none_left(process.pid)

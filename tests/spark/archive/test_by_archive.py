"""Executors whose Python has nothing but itself copy a topic by an archive, and say so clearly when they cannot.

Costs three and a half minutes on two cores, 20 s of it the archive.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, create_topic, produce, read, with_copies
from twinlog.spark.archive.make import make
from twinlog.spark.archive.manifest import Manifest
from twinlog.spark.archive.use import ARCHIVES, FOLDER, MODULE_PATH, PYTHON

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.long]

RECORDS = [Seen(b"%d" % n, b"v" * 200, 1_700_000_000_000 + n) for n in range(1000)]
OTHER_PYTHONS = ("python3.13", "python3.12", "python3.11")


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A Python of this version without any package."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, capture_output=True
    )
    return str(tmp_path / "bare" / "bin" / "python")


def other_python() -> Iterator[str]:
    """A Python of another version, if this machine has one."""
    for name in OTHER_PYTHONS:
        asked = [
            name,
            "-c",
            "import sys; print(sys.executable, sys.version_info[:2] != " + f"{sys.version_info[:2]})",
        ]
        if shutil.which(name):
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            if done.stdout.endswith("True\n"):
                yield done.stdout.split()[0]
                return


def run(config: Path, master: str) -> tuple[int, dict[str, Any]]:
    """One cycle on a master; its exit code and its document."""
    command = [sys.executable, "-m", "twinlog", "run", "--once", "--config", str(config)]
    done = subprocess.run(
        [*command, "--master", master, "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_worker_without_twinlog_copies_by_an_archive(
    standalone: Callable[..., Any],
    bare: str,
    archive: Callable[..., Path],
    ours: Manifest,
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every record arrives once.  What cannot run a task ends the run with one line, and no more is copied."""
    driver_path = os.environ.get("PYTHONPATH", "")
    monkeypatch.delenv("PYTHONPATH", raising=False)  # workers inherit it, and would find this work tree
    settings = {"driver__host": "127.0.0.1", "driver__bindAddress": "127.0.0.1", "executor__memory": "512m"}
    spark = standalone(1, 2, **settings)
    monkeypatch.setenv("PYTHONPATH", driver_path)
    topic = unique_topic("archive")
    create_topic(cluster_a, topic, 2)
    config, _ = with_copies(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
    )
    defaults = Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf")
    secret = defaults.read_text()

    def cycle(chosen: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
        for partition in range(2):
            produce(cluster_a, topic, RECORDS, partition)
        defaults.write_text(secret + "".join(f"{key} {value}\n" for key, value in chosen.items()))
        return run(config, spark.url)

    made = make(tmp_path / "whole.tar.gz")
    good = {ARCHIVES: f"{made.archive}#{FOLDER}", PYTHON: bare}
    code, document = cycle(good)
    assert (0, 2000) == (code, document["flows"][0]["records"]), document

    damaged, older = tmp_path / "damaged.tar.gz", archive(replace(ours, build="0.1.0+abc"))
    damaged.write_bytes(Path(made.archive).read_bytes()[:-9])
    wrong = [
        ({ARCHIVES: f"{damaged}#{FOLDER}"}, 2, "spark-archive", f"{damaged} is no sound archive of twinlog"),
        ({ARCHIVES: f"{older}#{FOLDER}"}, 2, "spark-archive", f"{older} is for twinlog 0.1.0+abc, here is "),
        ({PYTHON: "no-such-python"}, 1, "executor-python", "the executors' machines have no no-such-python"),
        ({MODULE_PATH: "/nowhere"}, 1, "executor-python", "the executors' Python has no module twinlog"),
        *(({PYTHON: it}, 1, "executor-python", "this worker has Python 3.") for it in other_python()),
    ]
    for chosen, exit_code, error_code, said in wrong:
        code, document = cycle(good | chosen)
        told = json.dumps(document)
        assert (exit_code, True, True) == (code, said in told, f'"{error_code}"' in told), told
    assert [RECORDS, RECORDS] == [read(cluster_b, f"A.{topic}", it) for it in range(2)]

    code, document = cycle(good)
    assert (0, 2000 * (len(wrong) + 1)) == (code, document["flows"][0]["records"]), document
    assert [RECORDS * (len(wrong) + 2)] * 2 == [read(cluster_b, f"A.{topic}", it) for it in range(2)]

"""What a JVM that twinlog starts is told."""

import os
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from twinlog.spark.classes import ERRORS_ONLY, QUICK_COMPILER, spark_classes, submit_options
from twinlog.spark.server import Health, start, stop
from twinlog.spark.session import local_address


def test_whoever_has_chosen_options_keeps_them() -> None:
    """Also when there are none; without Java there is no archive of classes."""
    assert {"SPARK_SUBMIT_OPTS": f"{QUICK_COMPILER} {ERRORS_ONLY}"} == submit_options({"PATH": "/nowhere"})
    logs_as_it_likes = {"PATH": "/nowhere", "SPARK_CONF_DIR": "/etc/spark"}
    assert {"SPARK_SUBMIT_OPTS": QUICK_COMPILER} == submit_options(logs_as_it_likes)
    assert {} == submit_options({"SPARK_SUBMIT_OPTS": "-Xmx8g"}) == submit_options({"SPARK_SUBMIT_OPTS": ""})


def test_only_a_local_master_is_kept_to_this_machine() -> None:
    """Executors of any other one come from elsewhere; an address that somebody has chosen stays."""
    assert {"SPARK_LOCAL_IP": "127.0.0.1"} == local_address("local[2]", {"PATH": "/bin"})
    assert {} == local_address("local[2]", {"SPARK_LOCAL_IP": "10.0.0.7"})
    assert {} == local_address("spark://spark:7077", {})


def _jvm(options: Sequence[str]) -> None:
    Path(options[0].removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"no archive")


@pytest.mark.spark
def test_spark_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    """`make setup` has made it, and the JVM has it mapped.  Cost: 12 s."""
    archive = spark_classes(os.environ)
    assert archive is not None
    assert archive.is_usable()
    server = start(
        tmp_path, jvm=submit_options({"PATH": os.environ["PATH"]})["SPARK_SUBMIT_OPTS"].split()
    ).server
    try:
        assert str(archive.file) in {it.path for it in psutil.Process(server.process.pid).memory_maps()}
    finally:
        stop(tmp_path)


@pytest.mark.spark
def test_spark_starts_without_an_archive_that_it_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark works without a word on stdout if the archive holds something else.  Cost: 25 s."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    archive = spark_classes(os.environ)
    assert archive is not None
    assert archive.make(_jvm)
    seen = start(tmp_path / "spark")
    stop(tmp_path / "spark")
    assert Health.READY is seen.health

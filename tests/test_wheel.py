"""The wheel is all of twinlog: it runs without the work tree, and without what only extras bring."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest

import twinlog
from lab import Seen, create_topic, cycle, produce
from twinlog.config.flow.load import load

WITHOUT = """
import os
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.split(".")[0] in os.environ["HIDDEN"].split()
        return None if hidden else PathFinder.find_spec(name, path, target)

    @classmethod
    def find_distributions(cls, context=None):
        hidden = context is not None and context.name in os.environ["HIDDEN"].split()
        return iter(()) if hidden else PathFinder.find_distributions(context)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""

AIRFLOW = "airflow great_expectations"
ALL_EXTRAS = f"{AIRFLOW} pyspark pyspark-client pandas grpc google fastapi"


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this work tree."""
    place = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=repository, check=True, capture_output=True)
    [built] = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def alone(
    repository: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """An environment in which Python finds the unpacked wheel and what is installed beside it, but Airflow and GX.

    If twinlog is installed from a wheel, as by .ci/cell, it is that one, with all that is there.
    """
    if not Path(twinlog.__file__).is_relative_to(repository):
        return dict(os.environ)
    place = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(request.getfixturevalue("wheel")) as archive:
        archive.extractall(place)
    (place / "sitecustomize.py").write_text(WITHOUT)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TWINLOG"))},
        "PYTHONPATH": os.pathsep.join([str(place), sysconfig.get_path("purelib")]),
        "HIDDEN": AIRFLOW,
    }


def run(alone: dict[str, str], *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed twinlog, far from the work tree."""
    command = [sys.executable, "-m", "twinlog", *words]
    return subprocess.run(command, env=alone, cwd=folder, capture_output=True, text=True, check=False)


def test_it_holds_what_lies_beside_the_package(repository: Path, wheel: Path) -> None:
    """Dags, jobs, plugins and examples of configuration: each file of the work tree."""
    beside = {
        f"twinlog/_shipped/{place}/{path.relative_to(repository / source)}"
        for place, source in (
            ("dags", "dags"),
            ("jobs", "jobs"),
            ("plugins", "plugins"),
            ("config", "include/config"),
        )
        for path in (repository / source).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        assert set() == beside - set(archive.namelist())


def test_it_holds_a_kernel_for_each_platform_of_its_own_kind(wheel: Path) -> None:
    """ELF for Linux, Mach-O for macOS, each for its processor."""
    magics = {
        "linux-x86_64": (b"\x7fELF", 18, b"\x3e\0"),
        "linux-aarch64": (b"\x7fELF", 18, b"\xb7\0"),
        "darwin-x86_64": (b"\xcf\xfa\xed\xfe", 4, b"\x07\0\0\x01"),
        "darwin-aarch64": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\0\0\x01"),
    }
    folder = "twinlog/batches/plain/_library/"
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(it).stem: archive.read(it) for it in archive.namelist() if it.startswith(folder)}
    assert magics == {
        name: (held[name][:4], at, held[name][at : at + len(is_)]) for name, (_, at, is_) in magics.items()
    }
    assert set(magics) == set(held)


def test_its_kernel_is_loaded(alone: dict[str, str], tmp_path: Path) -> None:
    """By the twinlog that was unpacked, not by the work tree's."""
    code = "from twinlog.batches.plain.library import LIBRARY; print(LIBRARY._name)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=alone, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_relative_to(alone["PYTHONPATH"].split(os.pathsep)[0])


def test_its_dags_can_be_installed(alone: dict[str, str], tmp_path: Path) -> None:
    """By somebody who has no work tree."""
    done = run(alone, "machine", "airflow", "--dags", ".", "--plugins", ".", folder=tmp_path)
    assert 0 == done.returncode, done.stderr
    assert (tmp_path / "twinlog_dags.py").exists()


def test_the_core_needs_no_extra(alone: dict[str, str], tmp_path: Path) -> None:
    """Every module but those of Airflow can be imported without Spark, pandas, Airflow and Great Expectations."""
    code = """
import importlib, pkgutil, twinlog
for found in pkgutil.walk_packages(twinlog.__path__, "twinlog."):
    if not found.name.startswith(("twinlog.airflow.", "twinlog.__main__")):
        importlib.import_module(found.name)
"""
    command, bare = [sys.executable, "-c", code], alone | {"HIDDEN": ALL_EXTRAS}
    done = subprocess.run(command, env=bare, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.integration
def test_the_core_works_against_brokers(
    alone: dict[str, str], tmp_path: Path, cluster_a: Any, cluster_b: Any
) -> None:
    """Without any extra the commands that copy nothing answer; a copy is one line that says what it lacks."""
    topic = f"core-{uuid.uuid4().hex[:8]}"
    create_topic(cluster_a, topic)
    produce(cluster_a, topic, [Seen(b"k", b"v", 1_700_000_000_000)])
    (tmp_path / "mm2.properties").write_text(
        f"clusters = core, copy\ncore.bootstrap.servers = {cluster_a.bootstrap_servers}\n"
        f"copy.bootstrap.servers = {cluster_b.bootstrap_servers}\ncore->copy.enabled = true\ntopics = {topic}\n"
        "groups = none\nreplication.factor = 1\noffset.storage.replication.factor = 1\n"
        "heartbeats.replication.enabled = false\ntwinlog.gate.fence.seconds = 1\n"
    )
    bare = alone | {"HIDDEN": ALL_EXTRAS}
    done = run(bare, "run", "--once", "--config", "mm2.properties", folder=tmp_path)
    assert (2, True) == (done.returncode, "pip install 'twinlog[spark] @ file:...'" in done.stderr), (
        done.stderr
    )
    cycle(load(tmp_path / "mm2.properties").flows["core->copy"])
    for words in (["check"], ["status"], ["groups"], ["translate", f"{topic}:0:0"], ["gate"], ["audit"]):
        done = run(bare, *words, "--config", "mm2.properties", "--output", "json", folder=tmp_path)
        assert (words, True) == (words, done.returncode in {0, 1}), done.stderr
        assert json.loads(done.stdout)


def test_the_demo_says_what_is_missing(alone: dict[str, str], tmp_path: Path) -> None:
    """And what can be done instead."""
    done = run(alone, "machine", "demo", folder=tmp_path)
    assert 2 == done.returncode
    assert "twinlog machine demo --without-airflow" in done.stderr


@pytest.mark.integration
@pytest.mark.spark
def test_it_replicates_by_itself(alone: dict[str, str], tmp_path: Path) -> None:
    """Two clusters, a warm Spark, cycles while records flow: every record is equal."""
    done = run(alone, "machine", "demo", "--without-airflow", "--output", "json", folder=tmp_path)
    assert 0 == done.returncode, done.stderr

"""Which twinlog a process runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

import pytest

import twinlog
from twinlog.spark.build import BUILD, build_of, other_build


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """This twinlog, installed elsewhere."""
    return shutil.copytree(Path(twinlog.__file__).parent, tmp_path / "twinlog")


def test_a_build_is_the_version_and_a_print() -> None:
    """The version is for people; it says nothing of a checkout."""
    assert re.fullmatch(re.escape(twinlog.__version__) + r"\+[0-9a-f]{12}", BUILD)
    assert f"{twinlog.__version__}+{build_of(files(twinlog))}" == BUILD
    assert "" == other_build(BUILD)


def test_the_same_sources_are_the_same_build_wherever_they_lie(copy: Path, tmp_path: Path) -> None:
    """In a folder, with what Python and a wheel leave there, or in an archive that Spark sends along."""
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "more.pyc").write_bytes(b"x")
    (copy / "_shipped" / "jobs").mkdir(parents=True)
    (copy / "_shipped" / "jobs" / "run_step.py").touch()
    archive = tmp_path / "twinlog.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for module in copy.rglob("*.py"):
            file.write(module, module.relative_to(tmp_path))
    here = build_of(files(twinlog))
    assert [here, here] == [build_of(copy), build_of(zipfile.Path(archive, "twinlog/"))]


def test_any_other_source_is_another_build(copy: Path) -> None:
    """One byte, a module more, a module by another name."""
    here = build_of(copy)
    module = copy / "batches" / "relabel.py"
    module.write_text(module.read_text() + "\n")
    changed = build_of(copy)
    (copy / "lane" / "more.py").touch()
    grown = build_of(copy)
    (copy / "lane" / "more.py").rename(copy / "steps" / "more.py")
    assert 4 == len({here, changed, grown, build_of(copy)})


DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
import twinlog
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TerminalError
from twinlog.lane.spec import LaneSpec, RangeSpec, StateTopics
from twinlog.spark.runner import open_runner

nowhere = ConnectionSettings("A", (("127.0.0.1", 1),), connect_timeout_ms=200)
ranges = (RangeSpec("t", "id", "A.t", 0, 0, 5),)
spec = LaneSpec("A->B", 1, "x", 1, 0, nowhere, nowhere, StateTopics("o", 1, "m", 1, "l", "c", "A"), ranges)
with open_runner("local[1]") as runner:
    try:
        print(runner.run([spec]))
    except TerminalError as error:
        print(twinlog.__file__, error.code, error)
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_real_worker_of_another_build_says_so(copy: Path) -> None:
    """The driver runs a copy that differs in one line; the worker says what it runs itself, and from where."""
    module = copy / "batches" / "relabel.py"
    module.write_text(module.read_text() + "\n")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(copy.parent)],
        capture_output=True, text=True, timeout=300, check=False, env=os.environ,
    )  # fmt: skip
    said = f"runs twinlog {BUILD} ({files(twinlog)}), the driver {twinlog.__version__}+{build_of(copy)}"
    assert (f"{copy}/__init__.py other-build" in done.stdout, said in done.stdout) == (True, True), done

"""Which twinlog a process runs."""

from __future__ import annotations

import re
import shutil
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
    """In a folder, with what Python leaves there, or in an archive that Spark sends along."""
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "more.pyc").write_bytes(b"x")
    archive = tmp_path / "twinlog.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for module in copy.rglob("*.py"):
            file.write(module, module.relative_to(tmp_path))
    here = build_of(files(twinlog))
    assert [here, here] == [build_of(copy), build_of(zipfile.Path(archive, "twinlog/"))]


def test_any_other_source_is_another_build(copy: Path) -> None:
    """One byte, a module more, a module by another name."""
    here = build_of(copy)
    module = copy / "relay" / "crc.py"
    module.write_text(module.read_text() + "\n")
    changed = build_of(copy)
    (copy / "relay" / "more.py").touch()
    grown = build_of(copy)
    (copy / "relay" / "more.py").rename(copy / "steps" / "more.py")
    assert 4 == len({here, changed, grown, build_of(copy)})

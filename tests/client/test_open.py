"""The way in for programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from twinlog.client import open_flow
from twinlog.errors import UsageError

FILE = """\
clusters = A, B
A.bootstrap.servers = localhost:1
B.bootstrap.servers = localhost:2
A->B.enabled = true
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def test_a_flow_is_opened_by_name(file: Path) -> None:
    """As MM2 writes it."""
    with open_flow(str(file), "A->B") as flow:
        assert "A->B" == flow.flow.name


def test_names_that_are_not_in_the_file(file: Path) -> None:
    """The error says which are."""
    with pytest.raises(UsageError, match="its flows are: A->B"), open_flow(file, "A->C"):
        pass


def test_neither_spark_nor_airflow_is_imported() -> None:
    """A program that asks for offsets pays for nothing else."""
    heavy = ["airflow", "pyspark", "great_expectations", "pandas"]
    script = f"import sys, twinlog.client; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()

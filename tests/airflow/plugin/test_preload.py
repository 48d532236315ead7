"""What the scheduler imports for its tasks: only there, and never an older twinlog than the one on the disk."""

import importlib.util
import os
import subprocess
import sys

import pytest

from twinlog.airflow.plugin.preload import MODULES, forget_changed, forks_tasks, preload, print_of


@pytest.mark.parametrize(
    ("words", "forks"),
    [
        (["/venv/bin/airflow", "scheduler"], True),
        (["-m", "scheduler", "--num-runs", "1"], True),
        (["airflow", "standalone"], True),
        (["airflow", "celery", "worker"], True),
        (["airflow", "celery", "flower"], False),
        (["airflow", "api-server"], False),
        (["airflow", "dag-processor"], False),
        (["airflow", "tasks", "test", "scheduler"], False),
        (["airflow"], False),
        ([], False),
    ],
)
def test_only_what_forks_tasks_imports_beforehand(words, forks):
    """Every other component would pay for it and gain nothing."""
    assert forks is forks_tasks(words)


def test_another_component_imports_nothing():
    """And is told so."""
    assert preload(["airflow", "api-server"]) is False


def test_every_module_is_there():
    """A module that was moved would silently be imported by each task again; twinlog's own move most."""
    ours = [name for name in MODULES if name.startswith("twinlog.")]
    assert [] == [name for name in ours if importlib.util.find_spec(name) is None]


@pytest.fixture
def package(tmp_path):
    """A folder with a module in a package."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "module.py").write_text("ONE = 1\n")
    return tmp_path


@pytest.mark.parametrize("change", ["written", "added", "removed", "touched"])
def test_every_change_is_noticed(package, change):
    """Also one that leaves the size as it was."""
    before, module = print_of(package), package / "inner" / "module.py"
    assert before == print_of(package)
    if change == "removed":
        module.unlink()
    elif change == "touched":
        os.utime(module, ns=(1, 1))
    else:
        (module if change == "written" else package / "new.py").write_text("TWO = 22\n")
    assert before != print_of(package)


FORK = """
import os, sys
from pathlib import Path
import twinlog.clock
from twinlog.airflow.plugin.preload import forget_changed, print_of

folder = Path(sys.argv[1])
before = print_of(folder)
os.register_at_fork(after_in_child=lambda: forget_changed(folder, before))
if sys.argv[2] == "changed":
    (folder / "module.py").write_text("TWO = 2")
if not (pid := os.fork()):
    os._exit(any(name.startswith("twinlog") for name in sys.modules))
child = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(child, "twinlog.clock" in sys.modules)
"""


@pytest.mark.parametrize(("files", "loaded_in_the_task"), [("same", "1"), ("changed", "0")])
def test_a_forked_task_forgets_a_twinlog_that_was_replaced(tmp_path, files, loaded_in_the_task):
    """It imports the new one then; the parent keeps what it has."""
    words = [sys.executable, "-c", FORK, str(tmp_path), files]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert f"{loaded_in_the_task} True" == done.stdout.strip()


def test_a_folder_that_vanished_counts_as_changed(tmp_path, monkeypatch):
    """A file may go between two looks at it; what is doubtful is imported anew."""
    monkeypatch.setitem(sys.modules, "twinlog.not_really", sys)
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "twinlog"}
    try:
        forget_changed(tmp_path / "gone", {"gone": (1, 1)})
        assert "twinlog.not_really" not in sys.modules
    finally:
        sys.modules.update({name: module for name, module in kept.items() if name != "twinlog.not_really"})

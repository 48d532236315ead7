"""An archive has all that tasks import, and nothing that they do not."""

from __future__ import annotations

import ast
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from twinlog.errors import ConfigError, UsageError
from twinlog.spark.archive import make
from twinlog.spark.archive.make import TASKS_NEED, needed

TASKS = ("daemon", "lane_task", "audit_task", "sample_task")
SPARKS_OWN = {"pyspark"}


def imported(module: Path) -> set[str]:
    """The names of all modules that a module imports, also inside of functions, but not for types alone."""
    tree = ast.parse(module.read_text())
    typing = [
        it for it in ast.walk(tree) if isinstance(it, ast.If) and "TYPE_CHECKING" in ast.unparse(it.test)
    ]
    skipped = {id(it) for block in typing for it in ast.walk(block)}
    names: set[str] = set()
    for it in ast.walk(tree):
        if id(it) in skipped:
            continue
        if isinstance(it, ast.Import):
            names |= {alias.name for alias in it.names}
        elif isinstance(it, ast.ImportFrom) and it.module:
            names |= {it.module, *(f"{it.module}.{alias.name}" for alias in it.names)}
    return names


def reached(root: Path) -> set[str]:
    """The packages of others that tasks can reach through twinlog's modules."""
    waiting, seen, others = [f"twinlog.spark.{it}" for it in TASKS], set(), set()
    while waiting:
        name = waiting.pop()
        file = root.joinpath(*name.split("."))
        module = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if name in seen or not module.is_file():
            continue
        seen.add(name)
        for it in imported(module):
            if it.split(".")[0] == "twinlog":
                waiting.append(it)
            elif it.split(".")[0] not in sys.stdlib_module_names:
                others.add(it.split(".")[0])
    return others


def test_the_list_is_what_tasks_import(repository):
    """Followed from the modules that Spark's workers import; PySpark is the node's own."""
    owners = packages_distributions()
    names = {canonicalize_name(owners[it][0]) for it in reached(repository / "include") - SPARKS_OWN}
    assert names == {canonicalize_name(it) for it in TASKS_NEED}


def test_what_packages_need_themselves_comes_with_them():
    """Versions are those installed here."""
    found = needed(())
    assert {"pydantic-core", "urllib3", "numpy"} <= set(found)
    assert not {"pyspark", "apache-airflow", "great-expectations", "pandas"} & set(found)


def test_an_unknown_package_is_refused():
    """By its name."""
    with pytest.raises(UsageError, match="no-such-package is not installed here"):
        needed(["no-such-package"])


def test_a_missing_package_of_ours_is_refused(monkeypatch):
    """An archive without it would fail on the nodes."""
    monkeypatch.setattr(make, "TASKS_NEED", ("no-such-package",))
    with pytest.raises(ConfigError, match="no-such-package, which tasks need") as refused:
        needed(())
    assert "spark-archive" == refused.value.code


def test_a_package_brings_what_its_extras_need(tmp_path, monkeypatch):
    """Those that one asks of the other, and no others; what nodes have already is left out."""
    for name, *requires in (
        ("mine", "other[fast]", "pyspark>=4", "twinlog"),
        ("other", 'quick; extra == "fast"', 'slow; extra == "careful"'),
        ("quick",),
    ):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        lines = [f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {it}" for it in requires)]
        (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(make, "TASKS_NEED", ())
    assert {"mine": "1.0", "other": "1.0", "quick": "1.0"} == needed(["Mine"])

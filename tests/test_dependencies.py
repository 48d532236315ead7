"""What is imported is asked for: pyproject.toml names each package that the code uses by itself."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PRODUCT = ("include", "dags", "jobs", "plugins")
AROUND = ("tests", "bench")
AIRFLOW = {"airflow": "apache-airflow"}
"""Airflow is one package that pins its parts; only its providers are packages of their own."""


def imports(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports from elsewhere, also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module


def provider(module: str) -> str:
    """Return the distribution of an Airflow module: `airflow.providers.apache.spark.hooks` is a provider's."""
    found = re.match(r"airflow\.providers\.((?:apache|common)\.\w+|\w+)", module)
    return f"apache-airflow-providers-{found[1].replace('.', '-')}" if found else AIRFLOW["airflow"]


@pytest.fixture(scope="module")
def asked(repository: Path) -> dict[str, set[str]]:
    """The packages that pyproject.toml names, by where it names them."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    names = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {canonicalize_name(Requirement(it).name) for it in lines} for extra, lines in names.items()
    }


def missing(repository: Path, folders: tuple[str, ...], asked: set[str]) -> set[str]:
    """Return `module (file)` of what these folders import, and nobody asked for."""
    files = [path for folder in folders for path in (repository / folder).rglob("*.py")]
    ours = {"twinlog", *AROUND, *(path.stem for path in files), *(path.parent.name for path in files)}
    installed = packages_distributions()
    found = set()
    for path in files:
        for module in imports(path):
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or top in ours:
                continue
            owners = [provider(module)] if top in AIRFLOW else installed.get(top, [])
            if asked.isdisjoint(map(canonicalize_name, owners)):
                found.add(f"{top} ({path.relative_to(repository)})")
    return found


def test_the_product_asks_for_what_it_imports(repository: Path, asked: dict[str, set[str]]) -> None:
    """A package that only comes along with another may be gone with its next release."""
    assert set() == missing(
        repository, PRODUCT, asked[""] | asked["airflow"] | asked["lineage"] | asked["gate"] | asked["msk"]
    )


def test_only_airflows_side_needs_what_airflow_brings(repository: Path, asked: dict[str, set[str]]) -> None:
    """Without its extras, twinlog asks for all that the rest imports, but for the gate and for logins to MSK."""
    others = [it for it in (repository / "include/twinlog").iterdir() if it.name != "airflow"]
    folders = tuple(str(it.relative_to(repository)) for it in others)
    assert set() == missing(repository, folders, asked[""] | asked["gate"] | asked["msk"])


def test_tests_and_benchmarks_ask_for_what_they_import(repository: Path, asked: dict[str, set[str]]) -> None:
    """In the extra `dev`, if the product does not."""
    assert set() == missing(repository, AROUND, set().union(*asked.values()))

"""What is imported is asked for: pyproject.toml names each package that the code uses by itself."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PRODUCT = ("include", "dags", "jobs", "plugins")
AROUND = ("tests", "bench")
CONSTRAINTS = sorted(Path(__file__).with_name("constraints").glob("airflow-*.txt"))
"""What twinlog uses of Airflow's own constraints, or of what their script finds: `uv pip compile --exclude-newer DAY`
of `apache-airflow[all]==VERSION`, on the day of its release.
"""
AIRFLOW = {"airflow": "apache-airflow"}
"""Airflow is one package that pins its parts; only its providers are packages of their own."""


@cache
def imports(path: Path) -> frozenset[str]:
    """Return the modules that a file imports from elsewhere, also within functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found.update(name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
    return frozenset(found)


def provider(module: str) -> str:
    """Return the distribution of an Airflow module: `airflow.providers.apache.spark.hooks` is a provider's."""
    found = re.match(r"airflow\.providers\.((?:apache|common)\.\w+|\w+)", module)
    return f"apache-airflow-providers-{found[1].replace('.', '-')}" if found else AIRFLOW["airflow"]


@pytest.fixture(scope="module")
def asked(repository: Path) -> dict[str, dict[str, Requirement]]:
    """The packages that pyproject.toml names, by where it names them; an extra may ask for others of twinlog's."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    lines = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {canonicalize_name(it.name): it for it in map(Requirement, asked) if it.name != "twinlog"}
        for extra, asked in lines.items()
    }


def missing(repository: Path, folders: tuple[str, ...], asked: Iterable[str]) -> set[str]:
    """Return `module (file)` of what these folders import, and nobody asked for."""
    files = [path for folder in folders for path in (repository / folder).rglob("*.py")]
    ours = {"twinlog", *AROUND, *(path.stem for path in files), *(path.parent.name for path in files)}
    installed = packages_distributions()
    asked, found = set(asked), set()
    for path in files:
        for module in imports(path):
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or top in ours:
                continue
            owners = [provider(module)] if top in AIRFLOW else installed.get(top, [top])
            if asked.isdisjoint(map(canonicalize_name, owners)):
                found.add(f"{top} ({path.relative_to(repository)})")
    return found


def test_the_product_asks_for_what_it_imports(repository: Path, asked: dict[str, set[str]]) -> None:
    """A package that only comes along with another may be gone with its next release."""
    logins = asked["msk"] | asked["kerberos"]
    extras = asked["airflow"] | asked["spark"] | asked["gate"] | logins
    assert set() == missing(repository, PRODUCT, asked[""] | extras)


def test_only_airflows_side_needs_what_airflow_brings(repository: Path, asked: dict[str, set[str]]) -> None:
    """Without its extras, twinlog asks for all that the rest imports, but for Spark, its checks and two logins."""
    others = [it for it in (repository / "include/twinlog").iterdir() if it.name != "airflow"]
    folders = tuple(str(it.relative_to(repository)) for it in others)
    logins = asked["msk"] | asked["kerberos"]
    assert set() == missing(repository, folders, asked[""] | asked["spark"] | asked["gate"] | logins)


def test_tests_and_benchmarks_ask_for_what_they_import(repository: Path, asked: dict[str, set[str]]) -> None:
    """In the extra `dev`, if the product does not."""
    assert set() == missing(repository, AROUND, {name for names in asked.values() for name in names})


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=lambda path: path.stem)
def test_it_installs_beside_airflow(asked: dict[str, dict[str, Requirement]], constraints: Path) -> None:
    """With the constraints of each of Airflow's versions, which pip is told to keep to."""
    wanted = [it for names in asked.values() for it in names.items()]
    pins = dict(line.split("==") for line in constraints.read_text().splitlines())
    assert [] == [str(it) for name, it in wanted if name in pins and not it.specifier.contains(pins[name])]

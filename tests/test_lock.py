"""The locks hold the set still, for every index and every machine; requirements.lock lacks developers' tools."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


@pytest.fixture(scope="module", params=["requirements.lock", "requirements-dev.lock"])
def lock(repository, request) -> str:
    return (repository / request.param).read_text()


@pytest.fixture(scope="module")
def locked(repository) -> dict[str, set[Version]]:
    """Versions by package of the whole set; a package may have one per version of Python."""
    return versions_in((repository / "requirements-dev.lock").read_text())


def versions_in(lock: str) -> dict[str, set[Version]]:
    versions: dict[str, set[Version]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;]+)", lock, re.MULTILINE):
        versions.setdefault(canonicalize_name(name), set()).add(Version(version))
    return versions


@pytest.fixture(scope="module")
def required(repository) -> list[Requirement]:
    """All that pyproject.toml asks for, extras included, but for what compiles against a machine's Kerberos."""
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = [
        text
        for name, texts in project["optional-dependencies"].items()
        if name != "kerberos"
        for text in texts
    ]
    required = [Requirement(text) for text in [*project["dependencies"], *extras]]
    return [it for it in required if it.name != "twinlog"]


def test_no_address_stands_in_the_lock(lock):
    """No URL and no option: the lock works with whatever index the environment names."""
    lines = [line for line in lock.splitlines() if not line.startswith("    --hash=sha256:")]
    assert [] == [line for line in lines if not re.fullmatch(r"[a-z0-9._-]+==\S+( ; .+)? \\", line)]


def test_every_package_has_hashes(lock):
    """Each pin is followed by at least one SHA-256."""
    assert None is re.search(r"\\\n[a-z0-9]", lock)


def test_the_lock_satisfies_pyproject(locked, required):
    """What pyproject asks for, its pins above all, is what the lock holds."""
    unmet = [
        str(requirement)
        for requirement in required
        if not locked.get(canonicalize_name(requirement.name))
        or not all(
            requirement.specifier.contains(each) for each in locked[canonicalize_name(requirement.name)]
        )
    ]
    assert [] == unmet


def test_what_runs_is_what_is_tested(repository, locked):
    """What `make demo` and the image install has the versions of the whole set, and no compiler or test tool."""
    runs = versions_in((repository / "requirements.lock").read_text())
    assert {name: locked[name] for name in runs} == runs
    assert not {"ziglang", "playwright", "pytest", "mypy", "mkdocs"} & set(runs)


def test_pyspark_and_its_client_are_one_version(locked):
    """Both install into the same folder: different versions would overwrite each other."""
    assert locked["pyspark"] == locked["pyspark-client"]

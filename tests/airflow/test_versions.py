"""What differs between versions of Airflow; tests/constraints has what to install beside each."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from twinlog.errors import UsageError

pytestmark = pytest.mark.airflow


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Undo the patches after one import of the module, and import it whole again."""
    from twinlog.airflow import versions

    yield monkeypatch
    monkeypatch.undo()
    importlib.reload(versions)


@pytest.mark.parametrize("version", ["2.11.2", "3.0.6", "4.0.0"])
def test_another_airflow_is_one_line(refused: pytest.MonkeyPatch, version: str) -> None:
    """Dags of an Airflow that they were not made for say so, not that a name cannot be imported."""
    import airflow
    from twinlog.airflow import versions

    refused.setattr(airflow, "__version__", version)
    with pytest.raises(UsageError, match=f"Airflow {version} is installed.*3.1.*pip install") as error:
        importlib.reload(versions)
    assert (2, "airflow-version") == (error.value.exit_code, error.value.code)


@pytest.mark.parametrize("provider", ["apache-spark", "standard"])
def test_an_older_provider_is_one_line(refused: pytest.MonkeyPatch, provider: str) -> None:
    """With the command for pip; what it lacks would be missed in the middle of a task."""
    from twinlog.airflow import versions

    name, read = f"apache-airflow-providers-{provider}", metadata.version
    refused.setattr(metadata, "version", lambda it: "1.0.1" if it == name else read(it))
    with pytest.raises(UsageError, match=f"^{name} 1.0.1 is installed.*pip install '{name}>=") as error:
        importlib.reload(versions)
    assert (2, "airflow-version") == (error.value.exit_code, error.value.code)


def test_the_lowest_providers_are_those_of_pyproject(repository: Path) -> None:
    """Which pip keeps to."""
    from twinlog.airflow.versions import PROVIDERS

    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = {it.name: str(it.specifier) for it in map(Requirement, extras["airflow"])}
    assert {name: asked[name] for name in PROVIDERS} == {name: f">={it}" for name, it in PROVIDERS.items()}

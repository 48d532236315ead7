"""What differs between versions of Airflow; tests/constraints has what to install beside each."""

from __future__ import annotations

import importlib

import pytest

from twinlog.errors import UsageError

pytestmark = pytest.mark.airflow


@pytest.mark.parametrize("version", ["2.11.2", "3.0.6", "4.0.0"])
def test_another_airflow_is_one_line(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Dags of an Airflow that they were not made for say so, not that a name cannot be imported."""

    import airflow
    from twinlog.airflow import versions

    monkeypatch.setattr(airflow, "__version__", version)
    with pytest.raises(UsageError, match=f"Airflow {version} is installed.*3.1.*pip install"):
        importlib.reload(versions)
    monkeypatch.undo()
    importlib.reload(versions)

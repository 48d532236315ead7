"""Dag files as Airflow's Dag processor sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def dags_of(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], Mapping[str, Any]]:
    """`dags_of("audit.py", text)` returns the Dags that this file makes of a configuration, by their ids."""
    from airflow.dag_processing.dagbag import DagBag

    def read(script: str, configuration: str) -> Mapping[str, Any]:
        config = tmp_path / "mm2.properties"
        config.write_text(configuration)
        monkeypatch.setenv("TWINLOG_CONFIG", str(config))
        bag = DagBag(dag_folder=repository / "dags" / script)
        assert {} == bag.import_errors
        return bag.dags

    return read

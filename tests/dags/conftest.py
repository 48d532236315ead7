"""Dag files as Airflow's Dag processor sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

TWO_FLOWS = """\
clusters = us-east, B, C
us-east.bootstrap.servers = localhost:9092
B.bootstrap.servers = localhost:9093
C.bootstrap.servers = localhost:9094
us-east->B.enabled = true
B->C.enabled = true
"""


@pytest.fixture
def dags_of(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Mapping[str, Any]]:
    """`dags_of("audit.py", more)` returns the Dags that this file makes of two flows and more lines, by their ids.

    With `configuration`, of that text alone.
    """
    from airflow.dag_processing.dagbag import DagBag

    def read(script: str, more: str = "", *, configuration: str = TWO_FLOWS) -> Mapping[str, Any]:
        config = tmp_path / "mm2.properties"
        config.write_text(configuration + more)
        monkeypatch.setenv("TWINLOG_CONFIG", str(config))
        bag = DagBag(dag_folder=repository / "dags" / script)
        assert {} == bag.import_errors
        return bag.dags

    return read

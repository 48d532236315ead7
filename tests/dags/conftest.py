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
def bag_of(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], Any]:
    """`bag_of(text)` is the DagBag of `dags/` under a configuration of that text, or without any."""
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag

    def read(text: str | None) -> Any:
        config = tmp_path / "mm2.properties"
        if text is not None:
            config.write_text(text)
        monkeypatch.setenv("TWINLOG_CONFIG", str(config))
        return DagBag(dag_folder=repository / "dags")

    return read


@pytest.fixture
def dags_of(bag_of: Callable[[str | None], Any]) -> Callable[..., Mapping[str, Any]]:
    """`dags_of("audit", more)` returns the Dags of this kind for two flows and more lines, by their ids.

    With `configuration`, of that text alone.
    """

    def read(kind: str, more: str = "", *, configuration: str = TWO_FLOWS) -> Mapping[str, Any]:
        bag = bag_of(configuration + more)
        assert {} == bag.import_errors
        return {dag_id: dag for dag_id, dag in bag.dags.items() if kind == dag_id.partition("__")[0]}

    return read

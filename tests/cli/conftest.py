"""Commands over clusters in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_cluster import FakeCluster
from json_documents import documents_are_those_of_the_schema

from twinlog.cluster.api import Clusters
from twinlog.config.flow.load import LENIENT, STRICT
from twinlog.config.flow.settings import FlowSettings

__all__ = ["documents_are_those_of_the_schema"]


@dataclass
class World:
    """A file whose flow A->B leads from one fake cluster to another."""

    file: Path
    source: FakeCluster
    target: FakeCluster


@pytest.fixture(autouse=True)
def words_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove from the environment what `--lenient` and `--strict` leave there, when the test ends."""
    for name in (LENIENT, STRICT):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = localhost:1\nB.bootstrap.servers = localhost:2\n"
        "A->B.enabled = true\nA->B.topics = .*\nB->A.emit.heartbeats.enabled = false\n"
    )
    made = World(file, FakeCluster("A"), FakeCluster("B"))

    @contextmanager
    def open_fakes(flow: FlowSettings) -> Iterator[Clusters]:
        yield Clusters(made.source, made.target)

    monkeypatch.setattr("twinlog.cluster.api.open_clusters", open_fakes)
    return made

"""A flow in memory that has copied and reported, and a drill of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from drill_stage import Stage
from recovery_world import ORDERS, new_world, replace_what_needs_brokers


@pytest.fixture
def make_stage(flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Stage]:
    """`make_stage()` has five records on both sides; `billing` has read three of them on the source, `done` all."""

    def make() -> Stage:
        world = new_world(flow, tmp_path)
        replace_what_needs_brokers(world, monkeypatch)
        world.clusters.source.commit("done", ORDERS, 5)
        world.cycle()
        return Stage(world)

    return make


@pytest.fixture
def stage(make_stage: Callable[[], Stage]) -> Stage:
    return make_stage()

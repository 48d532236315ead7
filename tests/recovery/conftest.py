"""A failover over clusters in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from recovery_world import World, new_world, replace_what_needs_brokers

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.recovery import procedure


@pytest.fixture
def make_world(flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], World]:
    """`make_world()` is a flow that has copied, passed a group on, and audited; a producer may write to the source."""

    def make() -> World:
        made = new_world(flow, tmp_path)
        replace_what_needs_brokers(made, monkeypatch)
        made.cycle()
        made.audit()
        return made

    return make


@pytest.fixture
def world(make_world: Callable[[], World]) -> World:
    return make_world()


@pytest.fixture
def nobody_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the journals say, no run is live, as if a minute had passed."""
    monkeypatch.setattr(procedure, "LIVE_MS", 0)


@pytest.fixture
def wait_a_minute(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """`wait_a_minute()` sets the clock on by as long as a run stays live."""
    now_ms = clock.now_ms
    return lambda: monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + procedure.LIVE_MS)

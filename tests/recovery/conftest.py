"""A failover over clusters in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from home_world import BothWays, promoted_world
from recovery_world import World, new_world, replace_what_needs_brokers

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.recovery import procedure
from twinlog.recovery.failback import export


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


@pytest.fixture(params=[True, False], ids=["same-names", "other-names"])
def keeps_names(request: pytest.FixtureRequest) -> bool:
    """Whether `orders` is called the same on B, or `A.orders`."""
    return request.param


@pytest.fixture
def make_promoted(
    flow: FlowSettings, tmp_path: Path, monkeypatch, keeps_names: bool
) -> Callable[[], BothWays]:
    """`make_promoted()` is a flow that was failed over; clients have written four records to B, and read three."""
    monkeypatch.setattr(export, "PAUSE_SECONDS", 0)

    def make() -> BothWays:
        world = promoted_world(flow, tmp_path, monkeypatch, keeps_names=keeps_names)
        world.b.commit("billing", world.copied, world.position(world.b) + 3)
        return world

    return make


@pytest.fixture
def changes(keeps_names: bool) -> range:
    """At which changes of a procedure something happens to it: at every other one with names that are kept, at those
    between with other names; at all with TWINLOG_LONG=1.
    """
    return range(1, 120) if os.environ.get("TWINLOG_LONG") else range(1 + keeps_names, 120, 2)

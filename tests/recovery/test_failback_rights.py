"""Rights that a failback lacks are named before anything is changed (failback/rights.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from home_world import BothWays, denied, promoted_world
from recovery_world import Blows

from twinlog.cluster.permissions.needs import Kind, Names, Resource, recovery_needs
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.recovery import DeniedWrite
from twinlog.recovery.failback import rights


@pytest.fixture(params=[True, False], ids=["same-names", "other-names"])
def world(
    request: pytest.FixtureRequest, flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> BothWays:
    """A flow that was failed over, with records of clients on B."""
    return promoted_world(flow, tmp_path, monkeypatch, keeps_names=request.param)


class TestMissing:
    @pytest.mark.parametrize("dry_run", [True, False])
    def test_topics_of_the_tail(self, world: BothWays, dry_run: bool):
        """One line names user, right, topic and cluster; the hint grants it; not one change is made."""
        world.b.forbidden = {"mm2-tail.A.orders.internal": {"CREATE", "WRITE"}}
        require_refused(
            world,
            lambda: world.home(dry_run=dry_run),
            "User:ANONYMOUS may not CREATE, WRITE topic mm2-tail.A.orders.internal of B",
            "--operation Create --operation Write --topic mm2-tail.A. --resource-pattern-type prefixed",
        )

    def test_to_save_only(self, world: BothWays):
        """`twinlog failback --save` asks for the same."""
        world.b.forbidden = {"mm2-tail.A.orders.internal": {"WRITE"}}
        require_refused(world, world.save, "may not WRITE topic mm2-tail.A.orders.internal of B", "Write")

    def test_the_seat_of_a_group(self, world: BothWays):
        """It is placed on A at the end of the way home, when everything else is done."""
        world.a.forbidden = {"billing": {"READ"}}
        require_refused(
            world, world.home, "may not READ group billing of A", "--operation Read --group billing"
        )

    def test_denials_on_a_that_nobody_could_remove(self, world: BothWays):
        """The failover has made them, and what comes home is written there."""
        assert denied(world.a)
        world.a.forbidden = {"": {"ALTER"}}
        require_refused(world, world.home, "may not ALTER cluster of A", "--operation Alter --cluster")

    def test_state_of_the_flow_that_brings_home(self, world: BothWays):
        """Under its own name."""
        world.a.forbidden = {world.back.ledger_topic: {"WRITE"}}
        require_refused(world, world.home, f"may not WRITE topic {world.back.ledger_topic} of A", "Write")


def require_refused(world: BothWays, deed: Callable[[], object], message: str, hint: str) -> None:
    world.blows = Blows()
    with pytest.raises(ClusterRefused) as refused:
        deed()
    assert ("unauthorised", []) == (refused.value.code, world.blows.names)
    assert message in refused.value.message
    assert hint in refused.value.hint


class TestPure:
    def test_what_the_failover_denies_is_not_asked(self, flow: FlowSettings):
        """WRITE on A is denied to everybody until the way home removes that."""
        back = replace(flow, source=flow.target, target=flow.source, homes={"A.orders": "orders"})
        asked = {
            shut: {
                operation
                for it in rights.to_go_home(back, ["A.orders"], [], frozenset({"orders"}), shut)
                if it.resource == Resource(Kind.TOPIC, "orders")
                for operation in it.operations
            }
            for shut in ((), (DeniedWrite("orders", "User:*", "*"),))
        }
        assert [{"WRITE"}] == [asked[()] - asked[shut] for shut in asked if shut]

    def test_a_check_warns_of_them(self, flow: FlowSettings):
        """`twinlog check` asks for what a failover and a failback need, which no cycle does."""
        found = recovery_needs(replace(flow, sync_group_offsets=False), Names(("orders",), ("billing",)))
        assert [
            ("billing", ("READ", "DESCRIBE"), False),
            ("mm2-tail.A.orders.internal", ("CREATE", "WRITE", "DESCRIBE"), False),
        ] == [(it.resource.name, it.operations, it.required) for it in found]

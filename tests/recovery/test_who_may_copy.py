"""Everyone who copies asks the same question of the ledger: before the fence, and behind it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recovery_world import World

from twinlog.copying import ranges
from twinlog.copying.resolve import why_not
from twinlog.errors import TerminalError
from twinlog.follow.report import prepare
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.metadata import sync
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.topics.snapshot import FlowSnapshot

STATES = [
    (FlowPhase.ACTIVE, "", True),
    (FlowPhase.PAUSED, "", False),
    (FlowPhase.FAILING_OVER, "", False),
    (FlowPhase.FAILING_OVER, "another", False),
    (FlowPhase.FAILING_OVER, "run-1", True),
    (FlowPhase.PROMOTED, "", False),
    (FlowPhase.PROMOTED, "run-1", False),
]


@pytest.mark.parametrize(("phase", "by", "copies"), STATES, ids=lambda it: str(it) or "cycle")
class TestEveryState:
    """`by` is the failover on whose behalf somebody tries to copy, "" for a cycle."""

    def test_before_the_fence(self, world: World, phase: FlowPhase, by: str, copies: bool):
        """A cycle, a lane generation of follow mode, and a plan find nothing to copy."""
        flow, clusters = self._in(world, phase, by)
        assert copies == bool(FlowSnapshot(flow, clusters).discovery.ready_topics)
        assert copies == bool(ranges.run(flow, clusters).ranges)
        assert copies == bool(prepare(flow, clusters, None, "run").topics)

    def test_behind_it(self, world: World, phase: FlowPhase, by: str, copies: bool):
        """What was found before may not be copied any more."""
        found = FlowSnapshot(world.flow, world.clusters).discovery.ready_topics
        flow, clusters = self._in(world, phase, by)
        ledger = read_ledger(flow, clusters.target)
        copy = clusters.target.describe_topics([found[0].remote_topic]).found[found[0].remote_topic]
        assert copies == (why_not(ledger, found[0], copy, by) is None)
        assert copies == ledger.flow_state.lets_copy(by)

    def test_metadata(self, world: World, phase: FlowPhase, by: str, copies: bool):
        """Profile `standby` takes no right from those who work on the target."""
        flow, clusters = self._in(world, phase, by)
        if copies or phase is FlowPhase.PAUSED:
            assert sync.make_plan(flow, clusters)
        else:
            with pytest.raises(TerminalError, match="would take rights"):
                sync.make_plan(flow, clusters)

    def _in(self, world: World, phase: FlowPhase, by: str):
        world.write(3)
        state = FlowState(phase, 7, "jo", "", "run-1" if phase.out_of_service else "")
        write_ledger(world.flow, world.clusters.target, [state])
        return replace(world.flow, recovery_run=by), world.clusters

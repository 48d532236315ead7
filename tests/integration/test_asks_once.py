"""A dry run asks brokers for groups and configurations as often as the gate alone: its steps share what was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from refusing import World, world

from twinlog.cluster.api import Clusters, open_clusters
from twinlog.gate import ask
from twinlog.gate.ask import GateRequest
from twinlog.judge.check import Mode
from twinlog.recovery import failover
from twinlog.recovery.steps.world import Request

DESCRIBE_CONFIGS = 32
OFFSET_FETCH, LIST_GROUPS = 9, 16


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("asks-once")) as made:
        yield made


def asked(made: World, kinds: set[int], do: Callable[[Clusters], object]) -> dict[str, Counter[int]]:
    """Count on each side the requests of these kinds that something sends."""
    for it in made.sides.values():
        it.proxy.refuse({})
    with open_clusters(made.flow) as clusters:
        do(clusters)
    return {
        side: Counter({key: count for key, count in it.proxy.refusals.asked.items() if key in kinds})
        for side, it in made.sides.items()
    }


@pytest.mark.parametrize("mode", Mode)
def test_a_dry_run_reads_once_what_the_gate_reads(played: World, mode: Mode) -> None:
    """Planned, of both clusters; without the source, of the target."""
    gate, kinds = (
        GateRequest(mode, still_writing=mode is Mode.PLANNED),
        {OFFSET_FETCH, LIST_GROUPS, DESCRIBE_CONFIGS},
    )
    request = Request("jo", mode, dry_run=True)
    by_gate = asked(played, kinds, lambda it: ask.run(played.flow, it, gate))
    assert by_gate["target"][LIST_GROUPS] > 0
    assert by_gate == asked(played, kinds, lambda it: failover.run(played.flow, it, request))

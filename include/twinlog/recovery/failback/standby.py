"""Keep on A, while clients still work on B, what A would need if B were lost on the way home; afterwards on B of A.

A failover without B knows only what a cycle of the flow home has left on A: how much was not home yet, where groups are
to go on, and that what came home is equal to its source.  Once clients are home, a failover without A would know of A
only what was so before they left it, until a cycle ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from twinlog import clock
from twinlog.audit import audit
from twinlog.errors import TwinlogError
from twinlog.groups import checkpoints
from twinlog.monitoring import publish
from twinlog.recovery.steps.world import World


def report(world: World) -> None:
    """Report the flow as a cycle does.  Raises errors of the clusters."""
    publish.run(world.flow, world.clusters, world.journal.actor.holder, None, clock.now_ms())


def keep_known(world: World) -> Iterator[str]:
    """Report, write checkpoints without moving a group, and audit what a flow that only brings home has copied.

    Yield what could not be done: nobody is kept from going home by that.  Raises FencedError `relieved`.
    """
    flow, clusters = world.flow, world.clusters
    still = replace(flow, sync_group_offsets=False)
    deeds: list[Callable[[], object]] = [lambda: report(world), lambda: checkpoints.run(still, clusters)]
    if flow.homes is not None:
        deeds.append(lambda: audit.run(flow, clusters, world.tools.audits()))
    for deed in deeds:
        try:
            deed()
        except TwinlogError as error:
            if error.code == "relieved":
                raise
            yield f"{world.flow.target.alias} is less prepared to do without {world.flow.source.alias}: {error.message}"

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
    deeds: list[Callable[[], None]] = [lambda: report(world), lambda: _note_groups(world)]
    if world.flow.homes is not None:
        deeds.append(lambda: _audit(world))
    for deed in deeds:
        try:
            deed()
        except TwinlogError as error:
            if error.code == "relieved":
                raise
            yield f"{world.flow.target.alias} is less prepared to do without {world.flow.source.alias}: {error.message}"


def _note_groups(world: World) -> None:
    checkpoints.run(replace(world.flow, sync_group_offsets=False), world.clusters)


def _audit(world: World) -> None:
    audit.run(world.flow, world.clusters, world.tools.audits())

"""Keep on A, while clients still work on B, what A would need if B were lost on the way home.

A failover without B knows only what a cycle of the flow home has left on A: how much was not home yet, where groups are
to go on, and that what came home is equal to its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from twinlog import clock
from twinlog.audit import audit
from twinlog.errors import TwinlogError
from twinlog.groups import checkpoints
from twinlog.monitoring import publish
from twinlog.recovery.steps.scene import Scene


def report(scene: Scene) -> None:
    """Report the flow as a cycle does.  Raises errors of the clusters."""
    publish.run(scene.flow, scene.clusters, scene.journal.actor.holder, None, clock.now_ms())


def keep_known(scene: Scene) -> Iterator[str]:
    """Report, write checkpoints without moving a group, and audit what a flow that only brings home has copied.

    Yield what could not be done: nobody is kept from going home by that.  Raises FencedError `relieved`.
    """
    deeds: list[Callable[[], None]] = [lambda: report(scene), lambda: _note_groups(scene)]
    if scene.flow.homes is not None:
        deeds.append(lambda: _audit(scene))
    for deed in deeds:
        try:
            deed()
        except TwinlogError as error:
            if error.code == "relieved":
                raise
            yield f"{scene.flow.target.alias} is less prepared to do without {scene.flow.source.alias}: {error.message}"


def _note_groups(scene: Scene) -> None:
    checkpoints.run(replace(scene.flow, sync_group_offsets=False), scene.clusters)


def _audit(scene: Scene) -> None:
    audit.run(scene.flow, scene.clusters, scene.tools.audits())

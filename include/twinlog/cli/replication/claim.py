"""`twinlog migrate claim`: say that a flow's state on the target is this flow's; refuse two names for one target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twinlog.cli.flows import load_one_flow
from twinlog.cli.options import ConfigOption, OneFlowOption, ReasonOption
from twinlog.cli.render import Grid, login, say, show, warn
from twinlog.errors import TerminalError

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.claim import ClaimResult


def claim(*, config: ConfigOption, reason: ReasonOption, flow: OneFlowOption = None) -> int:
    """Take over progress, map and ledger under this flow's name, between the clusters that answer now.

    Example: `twinlog migrate claim --flow 'A->west' --reason 'B is west now'`. Next: `twinlog run --once`.
    """
    from twinlog.cluster.api import open_clusters
    from twinlog.copying import claim as claiming

    _, one = load_one_flow(config, flow)
    with open_clusters(one) as clusters:
        done = claiming.run(one, clusters, by=login(), reason=reason)
    if not done.changed:
        say(f"{one.name}: was so already")
    for topic in done.others:
        warn(
            f"{topic} was copied from another cluster: `twinlog topics rebuild --topic {topic}`, or exclude it"
        )
    for ledger in done.forgotten:
        warn(f"{ledger} is gone: what that flow wrote to {one.source.alias} comes back as new records")
    show(done, _grids(done))
    return 0


def _grids(done: ClaimResult) -> Iterator[Grid]:
    claims = [done.before, done.claim] if done.before is not None and done.changed else [done.claim]
    yield Grid.of(
        f"{done.flow}: whose the state is",
        "flow | source cluster: source_cluster_id | target cluster: target_cluster_id | by | reason",
        claims,
    )


@dataclass(slots=True)
class SecondNames:
    """The flows seen so far, by the source's alias and the target's id: their state on the target is kept by these."""

    seen: dict[tuple[str, str], str] = field(default_factory=dict)

    def refuse(self, flow: FlowSettings, target_cluster_id: str) -> None:
        """Raise TerminalError `another-name` for a flow whose state would be that of a flow seen before."""
        first = self.seen.setdefault((flow.source.alias, target_cluster_id), flow.name)
        if first != flow.name:
            raise TerminalError(
                f"{first} and {flow.name} are one flow: both targets are cluster {target_cluster_id}, which would hold"
                " everything twice",
                "leave one of the two out; topics can be split between sources, not between names of a target",
                code="another-name",
                flow=flow.name,
            )

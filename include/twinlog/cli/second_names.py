"""Find flows of one file that call one target by two names, before either of them has copied anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twinlog.errors import TerminalError

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings


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
                hint="leave one of the two out; topics can be split between sources, not between names of a target",
                code="another-name",
                flow=flow.name,
            )

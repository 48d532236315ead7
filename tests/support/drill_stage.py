"""A drill over clusters in memory: only the consumers are not real."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from recovery_world import World

from twinlog.cluster.api import Clusters
from twinlog.drill import drill
from twinlog.drill.joining import First
from twinlog.drill.report import DrillReport
from twinlog.gate.evidence import Seal
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import read_ledger


@dataclass
class Stage:
    """A world, and what the clones' consumers do: `shift` makes them begin elsewhere than they were placed."""

    world: World
    shift: int = 0
    seconds: float = 0.5
    seal: Seal = field(default_factory=lambda: Seal("mm2.properties", "sha"))
    read: list[str] = field(default_factory=list)

    def reader(self, group: str, places: Collection[TopicPartition]) -> Mapping[TopicPartition, First]:
        """Read as a consumer of the group would."""
        self.read.append(group)
        target = self.world.clusters.target
        standing = target.committed_offsets([group]).found[group]
        starts = {at: max(0, standing[at].offset + self.shift) for at in places}
        found = target.read_records(starts, 1)
        return {at: First(it[0] if it else None, self.seconds) for at, it in found.items()}

    def drill(
        self,
        clusters: Clusters | None = None,
        groups: str = ".*",
        most: int = 20,
        driver: str = "",
        sleep: Callable[[float], object] = lambda _: None,
        *,
        source_dead: bool = False,
    ) -> DrillReport:
        """Drill as a process of its own."""
        request = drill.Request("jo", NameFilter((groups,)), most, driver, source_dead)
        tools = drill.Tools(self.reader, sleep, self.seal)
        return drill.run(self.world.flow, clusters or self.world.clusters, request, tools)

    @property
    def clones(self) -> set[str]:
        """The groups on the target that look like clones."""
        return {it.group for it in self.world.clusters.target.groups() if it.group.startswith("drill-")}

    @property
    def drills(self) -> list[Any]:
        """The drills of the ledger, oldest first."""
        return list(read_ledger(self.world.flow, self.world.clusters.target).drills)

    def replace_record(self, name: str, offset: int, **changes: Any) -> None:
        """Make a record of one log another one."""
        cluster = self.world.clusters.source if name == "orders" else self.world.clusters.target
        records = cluster.topics[name].logs[0].records
        place = next(index for index, it in enumerate(records) if it.offset == offset)
        records[place] = records[place]._replace(**changes)

    def lose_record(self, name: str, offset: int) -> None:
        """Compact a record away."""
        cluster = self.world.clusters.source if name == "orders" else self.world.clusters.target
        records: list[ReadRecord] = cluster.topics[name].logs[0].records
        records[:] = [it for it in records if it.offset != offset]

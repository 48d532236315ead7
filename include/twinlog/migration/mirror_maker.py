"""Find out how far a MirrorMaker 2 says it has copied, and whether its workers are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, TerminalError
from twinlog.formats.mm2.connect_offset import (
    SourceOffsetKey,
    parse_offset_key,
    parse_offset_value,
    parse_source_key,
)
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import StateTopics
from twinlog.migration.copier import still_runs
from twinlog.state.ledger import latest_or_empty


@dataclass(frozen=True, slots=True)
class Origin:
    """Tell which MM2 (a Copier): its source connector's name, its worker's offsets topic, its workers' group.

    `dedicated` says that the workers serve only this flow, so that one live worker shows that it runs.
    """

    connector: str
    offsets_topic: str
    worker_group: str
    dedicated: bool = True
    source_group: ClassVar[str] = ""

    @classmethod
    def of(
        cls, flow: FlowSettings, connector: str = "", offsets_topic: str = "", worker_group: str = ""
    ) -> Origin:
        """Use the names given, and dedicated mode's names for the others."""
        return cls(
            connector or flow.connector_name,
            offsets_topic or flow.offsets_topic,
            worker_group or flow.worker_group,
            dedicated=worker_group in {"", flow.worker_group},
        )

    def positions(self, flow: FlowSettings, clusters: Clusters) -> dict[TopicPartition, int]:
        """Return what the offsets topic says this connector has copied of the flow's source."""
        latest = latest_or_empty(clusters.target, self.offsets_topic)
        keys = ((parse_source_key(data, self.connector, flow.source.alias), data) for data in latest)
        offsets = ((key, parse_offset_value(latest[data])) for key, data in keys if key is not None)
        return {key.topic_partition: it for key, it in offsets if it is not None}

    def no_positions(self, flow: FlowSettings, clusters: Clusters) -> TerminalError:
        """Return the error, with whose positions the topic has, or that there is no such topic."""
        try:
            keys = clusters.target.latest(self.offsets_topic)
        except TerminalError as error:
            if error.code != "no-internal-topic":
                raise
            return TerminalError(
                f"{flow.target.alias} has no topic {self.offsets_topic}, where MirrorMaker keeps its positions",
                hint="check --offsets-topic (Connect's offset.storage.topic); run no cycle before the take-over: it"
                " would copy every record again, behind MirrorMaker's copies",
                code="no-internal-topic",
                flow=flow.name,
                topic=self.offsets_topic,
            )
        others = sorted({f"{it.connector_name} of {it.cluster}" for it in _source_keys(keys)})
        found = f"; it has those of {', '.join(others)}" if others else ""
        return TerminalError(
            f"{self.offsets_topic} on {flow.target.alias} holds no position of connector {self.connector}"
            f" for the source {flow.source.alias}{found}",
            hint="check --connector and --offsets-topic (Connect's offset.storage.topic), and the source's alias;"
            " MirrorMaker writes its first positions a minute after it began (offset.flush.interval.ms)",
            code="no-positions",
            flow=flow.name,
            topic=self.offsets_topic,
        )

    def require_not_running(self, flow: FlowSettings, clusters: Clusters) -> None:
        """Look for workers that run the connector."""
        workers = clusters.target.connect_workers(self.worker_group)
        if self.dedicated and workers.members:
            raise still_runs(flow, f"its worker group {self.worker_group} has {workers.members} member(s)")
        if tasks := workers.tasks.get(self.connector):
            raise still_runs(flow, f"workers of {self.worker_group} run {tasks} task(s) of {self.connector}")

    def began_at_start(self, flow: FlowSettings) -> bool:
        """Say what the file says: MM2 begins there unless `auto.offset.reset` is latest."""
        return not flow.copy.start_from_latest

    def keeps_progress_as(self, state: StateTopics) -> bool:
        """Compare connector and topic."""
        return (self.connector, self.offsets_topic) == (state.connector_name, state.offsets_topic)


def _source_keys(keys: Mapping[bytes, object]) -> Iterable[SourceOffsetKey]:
    for data in keys:
        try:
            key = parse_offset_key(data)
        except FormatError:
            continue
        if isinstance(key, SourceOffsetKey):
            yield key

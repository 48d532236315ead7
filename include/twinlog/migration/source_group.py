"""Find out how far a program says it has copied that keeps its positions as a consumer group on the source.

MirrorMaker 1 does, Confluent Replicator (`offset.topic.commit`) and many a program of one's own.  What it committed is
the next offset it reads; it had copied all before when it committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import StateTopics
from twinlog.migration.copier import still_runs


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """Tell which group on the source (a Copier)."""

    source_group: str
    connector: ClassVar[str] = ""
    offsets_topic: ClassVar[str] = ""

    def positions(self, flow: FlowSettings, clusters: Clusters) -> dict[TopicPartition, int]:
        """Return the offset before each that the group committed."""
        answer = clusters.source.committed_offsets([self.source_group]).require()
        return {it: next_.offset - 1 for it, next_ in answer[self.source_group].items() if next_.offset > 0}

    def no_positions(self, flow: FlowSettings, clusters: Clusters) -> TerminalError:
        """Return the error for a group that has committed nothing."""
        return TerminalError(
            f"group {self.source_group} has committed no offset on {flow.source.alias}",
            hint="check --source-group (MirrorMaker 1's group.id); a group's offsets expire after"
            " offsets.retention.minutes without members",
            code="no-positions",
            flow=flow.name,
        )

    def require_not_running(self, flow: FlowSettings, clusters: Clusters) -> None:
        """Look for members of the group."""
        found = clusters.source.describe_groups([self.source_group]).require()[self.source_group]
        if found.members:
            raise still_runs(
                flow,
                f"group {self.source_group} on {flow.source.alias} has {len(found.members)} member(s)",
            )

    def began_at_start(self, flow: FlowSettings) -> bool:
        """Say no: the flow's file does not say where another program began."""
        return False

    def keeps_progress_as(self, state: StateTopics) -> bool:
        """Say no: its positions are on the source."""
        return False

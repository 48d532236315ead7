"""Replication policies: MM2's questions about topic names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ReplicationPolicy(Protocol):
    """How topics are named on the other side (mm2-behaviour 5.1)."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Name on the target of `topic` of the cluster `source_alias`."""


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """`A.topic`."""

    separator: str = "."

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Alias, separator, name."""
        return f"{source_alias}{self.separator}{topic}"

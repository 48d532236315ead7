"""Replication policies: MM2's questions about topic names, with MM2's answers.

Two questions carry all others: what is a topic called on the other side (`format_remote_topic`), and where
did it come from (`topic_source`, `upstream_topic`).  Rules: MM2's ReplicationPolicy and its two classes in
Kafka 4.3; KIP-382, KIP-949.

Policies are frozen, complete once built, and picklable.  A name decides by its text alone: with the separator
`.`, a topic that its owner called `orders.v1` looks as if it came from a cluster `orders`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from twinlog.errors import ConfigError

HEARTBEATS_TOPIC = "heartbeats"
SEPARATOR_KEY = "replication.policy.separator"
INTERNAL_SEPARATOR_KEY = "replication.policy.internal.topic.separator.enabled"


class ReplicationPolicy(Protocol):
    """What a policy answers.  A custom one answers all of it; the short way is to derive from the default."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Name on the target of `topic` of the cluster `source_alias`."""

    def topic_source(self, topic: str) -> str | None:
        """Alias of the cluster `topic` came from in its last hop; None when it is not a remote topic."""

    def upstream_topic(self, topic: str) -> str | None:
        """Name of `topic` on the cluster it came from; None when it is not a remote topic."""

    def original_topic(self, topic: str) -> str:
        """Name of `topic` before its first hop; the name itself when it is not a remote topic."""

    def heartbeats_topic(self) -> str:
        """Name of the topic MM2 beats into; no separator ever changes it."""

    def offset_syncs_topic(self, alias: str) -> str:
        """Name of the offset-syncs topic; `alias` is the cluster that does *not* host it."""

    def checkpoints_topic(self, alias: str) -> str:
        """Name, on the target, of the checkpoints of the source `alias`."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether `topic` carries heartbeats, after any number of hops."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether `topic` is named as a checkpoints topic."""

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether `topic` is named as one of MM2's own."""

    def is_internal_topic(self, topic: str) -> bool:
        """Whether `topic` is MM2's, Kafka's (`__`) or hidden (`.`), and so is never replicated."""


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """Remote names are alias, separator, topic.

    `internal_separator_enabled` false keeps the dots of internal names whatever the separator (KIP-949).
    Raises ConfigError for a separator that no topic name may contain.
    """

    separator: str = "."
    internal_separator_enabled: bool = True

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", self.separator):
            raise ConfigError(
                f"{SEPARATOR_KEY}={self.separator!r} has characters a topic name may not contain",
                hint="use letters, digits, '.', '_' and '-' only",
                key=SEPARATOR_KEY,
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], source_alias: str) -> Self:
        """Build from MM2's keys; `source_alias` matters to the identity policy only."""
        return cls(*separators(properties))

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Alias, separator, topic."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Take what stands before the first separator, if Java's split finds two parts."""
        parts = _java_split(topic, self.separator)
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Take what follows the first separator."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Take off hops until none is left."""
        seen = {topic}  # a custom policy's upstream_topic may lead in circles
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream not in seen:
            seen.add(upstream)
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic

    def heartbeats_topic(self) -> str:
        """`heartbeats`."""
        return HEARTBEATS_TOPIC

    def offset_syncs_topic(self, alias: str) -> str:
        """`mm2-offset-syncs.<alias>.internal`, with the internal separator."""
        return f"mm2-offset-syncs{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        """`<alias>.checkpoints.internal`, with the internal separator."""
        return f"{alias}{self._internal}checkpoints{self._internal}internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """`heartbeats` after all hops are taken off."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """By its suffix, alias and separator included: `checkpoints.internal` alone is a user's topic."""
        return topic.endswith(f"{self._internal}checkpoints{self._internal}internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """`mm2...internal`, or a checkpoints topic."""
        mm2 = topic.startswith("mm2") and topic.endswith(f"{self._internal}internal")
        return mm2 or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """MM2's, Kafka's or hidden."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)

    @property
    def _internal(self) -> str:
        return self.separator if self.internal_separator_enabled else "."


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Remote names are the names themselves; only what looks like a heartbeats topic is named as by default.

    `source_alias` is the answer of `topic_source` for every topic (MM2's `source.cluster.alias`); None when
    nobody said it.  Data topics show no hop, so bounces cannot be seen by name (selection.cycle_alias).
    """

    source_alias: str | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], source_alias: str) -> Self:
        """Build from MM2's keys."""
        return cls(*separators(properties), source_alias)

    # slots make a new class, so zero-argument super() does not work here: the base is named.

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Keep the name; heartbeats get the alias, or the beats of two clusters would mix."""
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.format_remote_topic(self, source_alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        """Answer the configured alias, whatever the topic."""
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.topic_source(self, topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Keep the name."""
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.upstream_topic(self, topic)
        return topic


def separators(properties: Mapping[str, str]) -> tuple[str, bool]:
    """Read separator and KIP-949 flag; as in MM2 the flag counts only when the separator is set.

    Raises ConfigError when the flag is neither true nor false.
    """
    if SEPARATOR_KEY not in properties:
        return ".", True
    flag = properties.get(INTERNAL_SEPARATOR_KEY, "true").strip().lower()
    if flag not in {"true", "false"}:
        raise ConfigError(
            f"{INTERNAL_SEPARATOR_KEY}={flag!r} is not a boolean",
            hint="write true or false",
            key=INTERNAL_SEPARATOR_KEY,
        )
    return properties[SEPARATOR_KEY], flag == "true"


def _looks_like_heartbeats(topic: str) -> bool:
    """MM2's rule is the suffix, so `my-heartbeats` looks like one."""
    return topic.endswith(HEARTBEATS_TOPIC)


def _java_split(text: str, separator: str) -> list[str]:
    """Split as Java does on a literal: no trailing empty parts; an empty separator splits characters."""
    parts = text.split(separator) if separator else list(text)
    while parts and not parts[-1]:
        parts.pop()
    return parts

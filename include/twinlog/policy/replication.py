"""Answer MM2's questions about topic names, with MM2's answers (replication policies).

All questions rest on two: what is a topic called on the other side (`format_remote_topic`), and where did it come from
(`topic_source`, `upstream_topic`)?  Rules: MM2's ReplicationPolicy and its two classes in Kafka 4.3; KIP-382, KIP-949.

Policies are frozen, complete once built, and picklable.  Only the text of a name counts: with the separator `.`, a
topic that its owner called `orders.v1` looks as if it came from a cluster `orders`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

from twinlog.errors import ConfigError

HEARTBEATS_TOPIC = "heartbeats"
SEPARATOR_KEY = "replication.policy.separator"
INTERNAL_SEPARATOR_KEY = "replication.policy.internal.topic.separator.enabled"


class ReplicationPolicy(Protocol):
    """The methods of a policy.  A custom policy needs all of them; the short way is to derive from the default."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the target's name for `topic` of the cluster `source_alias`."""

    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster `topic` came from in its last hop; None if it is not a remote topic."""

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of `topic` on the cluster it came from; None if it is not a remote topic."""

    def original_topic(self, topic: str) -> str:
        """Return the name of `topic` before its first hop; the name itself if it is not a remote topic."""

    def heartbeats_topic(self) -> str:
        """Return the name of the topic that holds MM2's heartbeats; no separator ever changes it."""

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the name of the offset-syncs topic; `alias` is the cluster that does *not* host it."""

    def checkpoints_topic(self, alias: str) -> str:
        """Return the name, on the target, of the topic with the checkpoints of the source `alias`."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Say whether `topic` carries heartbeats, after any number of hops."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Say whether `topic` is named as a checkpoints topic."""

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Say whether `topic` is named as one of MM2's own."""

    def is_internal_topic(self, topic: str) -> bool:
        """Say whether `topic` is MM2's, Kafka's (`__`) or hidden (`.`), and so is never replicated."""


@dataclass(frozen=True, slots=True)
class DefaultReplicationPolicy:
    """Build remote names from alias, separator, topic.

    With `internal_separator_enabled` false, internal names keep their dots whatever the separator (KIP-949).  Raises
    ConfigError for a separator that no topic name may contain.
    """

    separator: str = "."
    internal_separator_enabled: bool = True
    aliases: tuple[str, ...] = ()
    """Known aliases that contain the separator, longest first.  MM2 takes a part of such a name for the alias, so that
    a two-way flow copies its own copies back."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", self.separator):
            raise ConfigError(
                f"{SEPARATOR_KEY}={self.separator!r} has characters a topic name may not contain",
                hint="use letters, digits, '.', '_' and '-' only",
                key=SEPARATOR_KEY,
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], source_alias: str) -> Self:
        """Build from MM2's keys; `source_alias` matters only to the identity policy."""
        return cls(*separators(properties))

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return alias, separator, topic."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the known alias in front, else the part before the first separator, if Java's split finds two."""
        for alias in self.aliases:
            if topic.startswith(f"{alias}{self.separator}"):
                return alias
        parts = _java_split(topic, self.separator)
        return parts[0] if len(parts) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the part behind the alias and the separator."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Remove hops until none is left."""
        seen = {topic}  # a custom policy's upstream_topic may lead in circles
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream not in seen:
            seen.add(upstream)
            topic, upstream = upstream, self.upstream_topic(upstream)
        return topic

    def heartbeats_topic(self) -> str:
        """Return `heartbeats`."""
        return HEARTBEATS_TOPIC

    def offset_syncs_topic(self, alias: str) -> str:
        """Return `mm2-offset-syncs.<alias>.internal`, with the internal separator."""
        return f"mm2-offset-syncs{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return `<alias>.checkpoints.internal`, with the internal separator."""
        return f"{alias}{self._internal}checkpoints{self._internal}internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Say whether the name is `heartbeats` after all hops are removed."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Decide by the suffix, with the separator in front: `checkpoints.internal` alone is a user's topic."""
        return topic.endswith(f"{self._internal}checkpoints{self._internal}internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Say whether the name is `mm2...internal`, or that of a checkpoints topic."""
        mm2 = topic.startswith("mm2") and topic.endswith(f"{self._internal}internal")
        return mm2 or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Say whether the topic is MM2's, Kafka's or hidden."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)

    @property
    def _internal(self) -> str:
        return self.separator if self.internal_separator_enabled else "."


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Keep names as they are; only names that look like a heartbeats topic are formed as by default.

    `source_alias` is the answer of `topic_source` for every topic (MM2's `source.cluster.alias`); None if it is not
    configured.  Data topics show no hop, so a cycle cannot be seen by name (selection.cycle_alias).
    """

    source_alias: str | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], source_alias: str) -> Self:
        """Build from MM2's keys."""
        return cls(*separators(properties), source_alias=source_alias)

    # Slots make a new class, so zero-argument super() does not work here: the base is named.

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Keep the name; heartbeats get the alias, or the heartbeats of two clusters would mix."""
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.format_remote_topic(self, source_alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        """Return the configured alias for every topic but heartbeats."""
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.topic_source(self, topic)
        return self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Keep the name."""
        if _looks_like_heartbeats(topic):
            return DefaultReplicationPolicy.upstream_topic(self, topic)
        return topic


def knowing(policy: ReplicationPolicy, aliases: Iterable[str]) -> ReplicationPolicy:
    """Return one of MM2's policies that takes these aliases whole; a custom policy is returned as it is."""
    if type(policy) not in {DefaultReplicationPolicy, IdentityReplicationPolicy}:
        return policy
    assert isinstance(policy, DefaultReplicationPolicy)
    return replace(policy, aliases=with_separator(policy, aliases))


def with_separator(policy: ReplicationPolicy, aliases: Iterable[str]) -> tuple[str, ...]:
    """Return the aliases that contain the policy's separator, longest first; none for a custom policy."""
    separator = policy.separator if isinstance(policy, DefaultReplicationPolicy) else ""
    found = (alias for alias in aliases if separator and separator in alias)
    return tuple(sorted(found, key=lambda alias: (-len(alias), alias)))


def separators(properties: Mapping[str, str]) -> tuple[str, bool]:
    """Read the separator and the KIP-949 flag; as in MM2 the flag counts only if the separator is set.

    Raises ConfigError if the flag is neither true nor false.
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
    """Apply MM2's rule, which looks only at the suffix: `my-heartbeats` passes."""
    return topic.endswith(HEARTBEATS_TOPIC)


def _java_split(text: str, separator: str) -> list[str]:
    """Split as Java does on a literal: no trailing empty parts; an empty separator splits characters."""
    parts = text.split(separator) if separator else list(text)
    while parts and not parts[-1]:
        parts.pop()
    return parts

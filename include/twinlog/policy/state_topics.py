"""Name the topics that a flow keeps on its target by the source's alias, and know heartbeats for certain.  Pure.

No flow and no MM2 copies the former.  MM2's own rule for heartbeats (`ReplicationPolicy.is_heartbeats_topic`) looks at
the end of a name, so `device.heartbeats` passes.  That is good enough to choose the topics to copy, which stays as in
MM2.  An exemption from a check needs certainty.
"""

from __future__ import annotations

import re
from collections.abc import Container

from twinlog.policy.replication import ReplicationPolicy

HOME = ".home"
"""Follows the source's alias in the names of a flow that only brings records home, and of the topics with its state."""

_LEDGER = re.compile(r"mm2-ledger\.(.+)\.internal")
_OFFSET_MAP = re.compile(r"mm2-offset-map\.(.+)\.internal")


def ledger_topic(source_alias: str) -> str:
    """Return the name of the topic with lost ranges, incarnations, lanes and flow state."""
    return f"mm2-ledger.{source_alias}.internal"


def offset_map_topic(source_alias: str) -> str:
    """Return the name of the topic with the exact offset map."""
    return f"mm2-offset-map.{source_alias}.internal"


def source_of_ledger(topic: str) -> str | None:
    """Return the source's alias if a topic is named as a flow's ledger, else None."""
    named = _LEDGER.fullmatch(topic)
    return named[1] if named else None


def comes_home(topic: str) -> bool:
    """Say whether a topic is named as the ledger of a flow that only brings records home."""
    return (source_of_ledger(topic) or "").endswith(HOME)


def source_of_offset_map(topic: str) -> str | None:
    """Return the source's alias if a topic is named as a flow's offset map, else None."""
    named = _OFFSET_MAP.fullmatch(topic)
    return named[1] if named else None


def is_known_heartbeats(policy: ReplicationPolicy, aliases: Container[str], topic: str) -> bool:
    """Say whether a topic holds heartbeats that came only over known clusters, hop by hop, or over none."""
    while topic != policy.heartbeats_topic():
        source, before = policy.topic_source(topic), policy.upstream_topic(topic)
        if source is None or source not in aliases or before is None or len(before) >= len(topic):
            return False
        if policy.format_remote_topic(source, before) != topic:
            return False
        topic = before
    return True

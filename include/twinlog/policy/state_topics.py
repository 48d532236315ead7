"""Name the topics that a flow keeps on its target by the source's alias, so that no flow and no MM2 copies them."""

from __future__ import annotations

import re

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


def source_of_offset_map(topic: str) -> str | None:
    """Return the source's alias if a topic is named as a flow's offset map, else None."""
    named = _OFFSET_MAP.fullmatch(topic)
    return named[1] if named else None

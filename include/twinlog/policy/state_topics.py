"""Names of topics a flow keeps on its target, made of the source's alias: so that no flow replicates them, nor MM2."""

from __future__ import annotations

import re

_LEDGER = re.compile(r"mm2-ledger\.(.+)\.internal")
_OFFSET_MAP = re.compile(r"mm2-offset-map\.(.+)\.internal")


def ledger_topic(source_alias: str) -> str:
    """Where gaps, incarnations, lanes and flow state live."""
    return f"mm2-ledger.{source_alias}.internal"


def offset_map_topic(source_alias: str) -> str:
    """Where the exact offset map lives."""
    return f"mm2-offset-map.{source_alias}.internal"


def source_of_ledger(topic: str) -> str | None:
    """Whose flow's ledger a topic is by its name; None when it is none."""
    named = _LEDGER.fullmatch(topic)
    return named[1] if named else None


def source_of_offset_map(topic: str) -> str | None:
    """Whose flow's offset map a topic is by its name; None when it is none."""
    named = _OFFSET_MAP.fullmatch(topic)
    return named[1] if named else None

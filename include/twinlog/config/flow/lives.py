"""The settings for changes in topics: deleted, recreated, or with records gone before they were copied."""

from __future__ import annotations

import re
from functools import partial

from twinlog.config.flow.reader import Reader
from twinlog.config.flow.settings import GapPolicy, LifecycleSettings, RecreatedPolicy

KEEP = "keep"
_UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def lifecycle_settings(read: Reader) -> LifecycleSettings:
    """Return the settings of a flow."""
    return LifecycleSettings(
        on_recreated=read.choice("twinlog.on.recreated", RecreatedPolicy),
        on_gap=read.choice("twinlog.on.gap", GapPolicy),
        delete_after_ms=read.parsed(
            "twinlog.on.deleted",
            partial(_after_ms, "delete-after"),
            "is neither keep nor delete-after:TIME, such as delete-after:7d",
        ),
        forget_after_ms=read.parsed(
            "twinlog.on.deleted.both",
            partial(_after_ms, "forget-after"),
            "is neither keep nor forget-after:TIME, such as forget-after:30d",
        ),
    )


def _after_ms(word: str, text: str) -> int | None:
    if text == KEEP:
        return None
    found = re.fullmatch(rf"{word}:((?:\d+[mhd])+)", text)
    if found is None:
        raise ValueError(text)
    return sum(int(count) * _UNITS_MS[unit] for count, unit in re.findall(r"(\d+)([mhd])", found[1]))

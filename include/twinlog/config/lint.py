"""What a file says that MM2 would silently drop, or that is likely not meant: warnings by line."""

from __future__ import annotations

from twinlog.config.findings import Findings
from twinlog.config.origin import Properties
from twinlog.config.settings import FlowSettings


def lint(
    raw: Properties, aliases: tuple[str, ...], flows: tuple[FlowSettings, ...], findings: Findings
) -> None:
    """Add warnings and notes about the keys of a file."""

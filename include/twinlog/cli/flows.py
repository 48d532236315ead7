"""Resolve a file and the names given with --flow into the flows a command works on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.cli.say import warn
from twinlog.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from twinlog.config.flow.settings import Configuration, FlowSettings


def load_flows(path: Path, names: Sequence[str] | None, *, strict: bool = False) -> tuple[FlowSettings, ...]:
    """Read the file, print its warnings on stderr, and return the requested flows.

    Raises ConfigError if the file cannot be used, and UsageError if it has no such flow.
    """
    from twinlog.config.flow.load import load

    configuration = load(path, strict=strict)
    for line in configuration.warnings:
        warn(line)
    return select_flows(configuration, names)


def select_flows(configuration: Configuration, names: Sequence[str] | None) -> tuple[FlowSettings, ...]:
    """Return the named flows in the order given, each once, or every enabled flow if none is named."""
    if not names:
        return _every_enabled(configuration)
    return tuple(_named(configuration, name) for name in dict.fromkeys(map(_tidy, names)))


def _tidy(name: str) -> str:
    """Remove the blanks in `A -> B`, which MM2's file allows too."""
    return "->".join(part.strip() for part in name.split("->"))


def _every_enabled(configuration: Configuration) -> tuple[FlowSettings, ...]:
    if configuration.enabled_flows:
        return configuration.enabled_flows
    raise ConfigError(
        f"{configuration.path} enables no flow",
        hint="add a line such as A->B.enabled = true for two of its clusters: "
        + ", ".join(configuration.clusters),
        file=str(configuration.path),
    )


def _named(configuration: Configuration, name: str) -> FlowSettings:
    flow = configuration.flows.get(name)
    if flow is not None and flow.enabled:
        return flow
    known = ", ".join(flow.name for flow in configuration.enabled_flows) or "none"
    if flow is not None:
        raise UsageError(
            f"flow {name} of {configuration.path} is not enabled",
            hint=f"set {name}.enabled = true there, or choose one of: {known}",
            flow=name,
            file=str(configuration.path),
        )
    raise UsageError(
        f"{configuration.path} has no flow {name}",
        hint=f"its enabled flows are: {known}",
        flow=name,
        file=str(configuration.path),
    )

"""Choose the flow for commands about one flow: the named one, or the only one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.cli.flows import select_flows
from twinlog.cli.say import warn
from twinlog.errors import UsageError

if TYPE_CHECKING:
    from twinlog.config.flow.settings import Configuration, FlowSettings


def load_one_flow(
    path: Path, name: str | None, *, strict: bool = False
) -> tuple[Configuration, FlowSettings]:
    """Read the file, print its warnings, and return the flow.

    Raises ConfigError if the file cannot be used, UsageError if it has no such flow, or has several and none is named.
    """
    from twinlog.config.flow.load import load

    configuration = load(path, strict=strict)
    for line in configuration.warnings:
        warn(line)
    flows = select_flows(configuration, [name] if name else None)
    if len(flows) > 1:
        names = ", ".join(flow.name for flow in flows)
        raise UsageError(
            f"this is about one flow, and {path} has {names}", hint=f"add --flow '{flows[0].name}'"
        )
    return configuration, flows[0]

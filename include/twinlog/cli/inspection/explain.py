"""`twinlog plan --explain`: each value of a configuration with the line or rule it came from, and topics' fate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.cli.render import Grid, Lines, show, warn
from twinlog.config.flow.reader import UNRESOLVED
from twinlog.errors import ExitCode, TwinlogError

if TYPE_CHECKING:
    from twinlog.config.explain import ExplainedFlow, Explanation
    from twinlog.config.flow.load import Resolution
    from twinlog.config.flow.settings import FlowSettings


def explain_file(config: Path, flow: list[str] | None, named: frozenset[str] | None) -> int:
    """Say what the configuration comes to, value by value, and what becomes of each topic.

    Topics are those `named`, else all that the source shows.  The files, variables and connections that a value names
    need not be on this machine: such a value is listed as unresolved, and nothing is judged by it.
    """
    from twinlog.config.explain import explain
    from twinlog.config.flow.load import resolve

    resolution = resolve(config, elsewhere=True)
    _refuse_unknown_checks(resolution)
    explanation = explain(resolution, flow or (), sorted(named or ()))
    if named is None:
        flows = resolution.configuration.flows
        live = tuple(_with_live_topics(explained, flows[explained.flow]) for explained in explanation.flows)
        explanation = replace(explanation, flows=live)
    show(explanation, grids_of(explanation))
    return ExitCode.DONE


def _refuse_unknown_checks(resolution: Resolution) -> None:
    """Raise ConfigError, with its line, if `twinlog.gate.blocking` names an unknown check.

    It is done here and not by the loader: the layer of the checks is above the configuration.
    """
    for flow in resolution.flows.values():
        if flow.settings.gate.blocking:
            from twinlog.judge.table import refuse_unknown

            origin = next(
                resolved.origin for resolved in flow.values if resolved.key == "twinlog.gate.blocking"
            )
            refuse_unknown(flow.settings.gate.blocking, f"{origin.place}: {origin.key}")


def _with_live_topics(explained: ExplainedFlow, flow: FlowSettings) -> ExplainedFlow:
    """Add the topics that the flow's source shows now."""
    if not explained.enabled:
        return explained
    if not explained.judged:
        warn(f"{flow.name}: topics are not judged: what decides about them is not on this machine")
        return explained
    from twinlog.cluster.api import Cluster
    from twinlog.config.explain import explain_topics

    try:
        names = Cluster(flow.source).topic_names()
    except TwinlogError as error:
        warn(f"{flow.name}: topics are not judged: {error.message}")
        return explained
    return replace(explained, topics=explain_topics(flow, names))


def grids_of(explanation: Explanation) -> Iterator[Grid | Lines]:
    """Yield the tables that show an explanation to people."""
    for flow in explanation.flows:
        yield _values(flow)
        yield _topics(flow)
    if explanation.warnings:
        yield Lines("warnings", explanation.warnings)
    if explanation.unresolved:
        yield Lines("not on this machine", explanation.unresolved)
    if explanation.notes:
        yield Lines("without effect on the copy", explanation.notes)


def _values(flow: ExplainedFlow) -> Grid:
    state = "" if flow.enabled else " (copies nothing, writes heartbeats)"
    if any(value.key == "enabled" and value.value == UNRESOLVED for value in flow.values):
        state = " (whether it copies is not on this machine)"
    return Grid.of(
        f"{flow.flow}{state}",
        "key | value | from: origin | written_as | rule | reaches",
        flow.values,
        origin=lambda it: it.place or it.rule,
        rule=lambda it: it.rule if it.place else "",
    )


def _topics(flow: ExplainedFlow) -> Grid:
    columns = (
        "topic | on the target: remote_topic | left out because: left_out"
        " | copied although not selected because: because"
    )
    return Grid.of(f"{flow.flow}: topics", columns, flow.topics, because=lambda it: it.because or None)

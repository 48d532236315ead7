"""`twinlog explain`: each value of a configuration with the line or rule it came from, and the fate of topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinlog.cli.options import ConfigOption, FlowOption, Output, OutputOption, StrictOption, TopicsOption
from twinlog.cli.render import Grid, Lines, show
from twinlog.cli.topics import parse_topics

if TYPE_CHECKING:
    from twinlog.config.explain import ExplainedFlow, Explanation


def explain(
    config: ConfigOption,
    flow: FlowOption = None,
    topics: TopicsOption = None,
    strict: StrictOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say what the configuration comes to, value by value, and what becomes of the topics named with --topics."""
    from twinlog.config.explain import explain as explained
    from twinlog.config.load import resolve

    explanation = explained(resolve(config, strict=strict), flow or (), sorted(parse_topics(topics) or ()))
    show(explanation, output, grids_of(explanation))


def grids_of(explanation: Explanation) -> Iterator[Grid | Lines]:
    """Return the tables that show an explanation to people."""
    for flow in explanation.flows:
        yield _values(flow)
        if flow.topics:
            yield _topics(flow)
    if explanation.warnings:
        yield Lines("warnings", explanation.warnings)
    if explanation.notes:
        yield Lines("without effect", explanation.notes)


def _values(flow: ExplainedFlow) -> Grid:
    state = "" if flow.enabled else " (copies nothing, writes heartbeats)"
    rows = [
        (
            value.key,
            value.value,
            value.place or value.rule,
            value.written_as,
            value.rule if value.place else "",
        )
        for value in flow.values
    ]
    return Grid(f"{flow.flow}{state}", ("key", "value", "from", "written as", "rule"), rows)


def _topics(flow: ExplainedFlow) -> Grid:
    rows = [(topic.topic, topic.remote_topic, topic.left_out) for topic in flow.topics]
    return Grid(f"{flow.flow}: topics", ("topic", "on the target", "left out because"), rows)

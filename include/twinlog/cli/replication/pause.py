"""`twinlog pause` and `twinlog resume`: hold a flow, or some of its topics, and let them go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from twinlog.cli.failure import Failure
from twinlog.cli.flows import each_flow, load_flows
from twinlog.cli.options import ConfigOption, FlowOption, TopicsOption, option, parse_topics
from twinlog.cli.render import Grid, login, say, show

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.topics.pauses import PauseResult

ReasonOption = Annotated[str, option("--reason TEXT", "Why; shown wherever the flow is.")]


@dataclass(frozen=True, slots=True)
class PauseOf:
    """The pauses of one flow now, or the reason why they are unknown."""

    flow: str
    paused: PauseResult | None = None
    error: Failure | None = None


def pause(
    *, config: ConfigOption, reason: ReasonOption, flow: FlowOption = None, topic: TopicsOption = None
) -> int:
    """Pause flows, or some of their topics; a cycle that runs now still ends.

    Example: `twinlog pause --flow 'A->B' --topic orders --reason 'load on B'`. Next: `twinlog resume`.
    """
    return _each(load_flows(config, flow), lambda one: _changed(one, topic, reason, resume=False))


def resume(
    *, config: ConfigOption, reason: ReasonOption = "", flow: FlowOption = None, topic: TopicsOption = None
) -> int:
    """Resume paused flows, or some of their topics, where they stopped.

    Example: `twinlog resume --flow 'A->B'`. Next: `twinlog status`.
    """
    return _each(load_flows(config, flow), lambda one: _changed(one, topic, reason, resume=True))


def _changed(flow: FlowSettings, named: Sequence[str] | None, reason: str, *, resume: bool) -> PauseOf:
    from twinlog.cluster.api import open_clusters
    from twinlog.topics import pauses
    from twinlog.topics.discovery import refuse_unknown_topics
    from twinlog.topics.snapshot import FlowSnapshot

    change, topics = (pauses.resume if resume else pauses.pause), parse_topics(named) or frozenset()
    with open_clusters(flow) as clusters:
        if topics and not resume:
            refuse_unknown_topics(FlowSnapshot(flow, clusters).discovery, topics)
        done = change(flow, clusters.target, topics=topics, by=login(), reason=reason)
    return PauseOf(flow.name, done)


def _each(flows: Iterable[FlowSettings], work: Callable[[FlowSettings], PauseOf]) -> int:
    done = each_flow(flows, work, lambda one, failure: PauseOf(one.name, error=failure))
    show({"flows": done.results}, (grid for result in done.results for grid in _grids(result)))
    return done.exit_code


def _grids(it: PauseOf) -> Iterator[Grid]:
    if it.paused is None:
        return
    if not it.paused.changed:
        say(f"{it.flow}: was so already")
    yield Grid.of(
        f"{it.flow}: {it.paused.state.value}",
        "paused topic: topic | by | reason",
        it.paused.topics,
        "no topic is paused by itself",
    )

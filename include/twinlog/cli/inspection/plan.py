"""`twinlog plan`: what the next cycle would do, or each value with the line it came from; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from twinlog.cli import options
from twinlog.cli.flows import ask_each, load_flows
from twinlog.cli.render import Grid, Lines, say, show, warn
from twinlog.cli.replication.claim import SecondNames
from twinlog.config.flow.reader import UNRESOLVED
from twinlog.errors import ExitCode, TerminalError, TwinlogError, UsageError
from twinlog.visible import listed

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.config.explain import ExplainedFlow, Explanation
    from twinlog.config.flow.load import Resolution
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.ranges import StoppedPartition, UndecidedRange
    from twinlog.lane.spec import RangeSpec
    from twinlog.lifecycle.apply import LifecycleResult
    from twinlog.topics.discovery import Discovery, LeftOut, Orphan, Problem
    from twinlog.topics.plan import Change, Refusal


@dataclass(frozen=True, slots=True)
class UpcomingTopic:
    """A topic whose copy is still to be created: the cycle that creates it also copies into it.

    `records` counts upstream offsets, an upper bound.
    """

    topic: str
    remote_topic: str
    partitions: int
    records: int


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """The plan of the next cycle of a flow.  `records` counts upstream offsets: an upper bound.

    `changes` and `refused` concern topics on the target, `ranges` and `stopped` partitions.  `lanes` says which
    partitions share a writer.  `undecided` are upstream offsets behind open transactions, which no cycle copies before
    those end.  `held` says who holds the flow.  `paused` are topics that a person paused, `orphans` are copies into
    which nothing is copied.  `lives` says how policies treat recreated, deleted and shortened topics.  `needs_person`
    says that something of it is not copied before a person acts.
    """

    flow: str
    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]
    problems: tuple[Problem, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    ranges: tuple[RangeSpec, ...]
    stopped: tuple[StoppedPartition, ...]
    upcoming: tuple[UpcomingTopic, ...]
    lanes: tuple[tuple[str, ...], ...]
    undecided: tuple[UndecidedRange, ...]
    records: int
    held: str
    paused: tuple[str, ...]
    orphans: tuple[Orphan, ...]
    lives: LifecycleResult | None
    needs_person: bool


def plan(
    *,
    config: options.ConfigOption,
    flow: options.FlowOption = None,
    topics: options.TopicsOption = None,
    until: options.UntilOption = None,
    explain: Annotated[
        bool,
        options.option(
            "--explain",
            "Instead: each value of the file with the line or rule it came from, and what becomes of each topic.",
        ),
    ] = False,
) -> int:
    """Show what the next cycle would create and grow on the target and copy; nothing is changed.

    Partitions are assigned to lanes (transactional producers) as if Spark had two slots. Positions of groups and offset
    syncs are not planned. `twinlog metadata plan` and `metadata schemas` show what is no part of a cycle. Exit code 1:
    a topic or a partition is not copied before a person acts.

    --explain judges the named topics, or all that the source shows. It needs no source, and no file or variable of
    another machine: such a value is listed as unresolved.

    Example: `twinlog plan --config mm2.properties --topic orders`. Next: `twinlog run --once`.
    """
    chosen = options.parse_topics(topics)
    if explain:
        if until:
            raise UsageError("--until is about what a cycle copies", "leave out --until or --explain")
        return explain_file(config, flow, chosen)
    until_ms = options.parse_moment(until) if until else None
    flows = load_flows(config, flow)
    names = SecondNames()
    done = ask_each(flows, lambda one: plan_flow(one, chosen, until_ms, names))
    plans = [result.found for result in done.results if result.found is not None]
    work = {one.name: one.work for one in flows}
    show(
        {"flows": [result.document() for result in done.results]},
        (grid for flow_plan in plans for grid in _grids(flow_plan, work[flow_plan.flow])),
    )
    return max(done.exit_code, ExitCode.of(not any(flow_plan.needs_person for flow_plan in plans)))


def plan_flow(
    flow: FlowSettings, topics: frozenset[str] | None, until_ms: int | None, others: SecondNames
) -> FlowPlan:
    """Plan one flow; `others` are the flows of the file planned before.

    Raises what its clusters raise, TerminalError `another-name`, and UsageError for a topic it does not replicate.
    """
    from twinlog.cluster.api import open_clusters
    from twinlog.monitoring import heartbeats
    from twinlog.steps import plan_ranges, sync_topics
    from twinlog.topics.discovery import refuse_unknown_topics, waiting_for_a_person
    from twinlog.topics.snapshot import FlowSnapshot

    with open_clusters(flow) as clusters:
        say(f"{flow.name}: asking {flow.source.alias} and {flow.target.alias}{flow.whose_copy}")
        snapshot = FlowSnapshot(flow, clusters)
        discovery = snapshot.discovery
        others.refuse(flow, discovery.target_cluster_id)
        refuse_unknown_topics(discovery, topics)
        metadata = sync_topics.run(flow, clusters, dry_run=True, snapshot=snapshot)
        ranges = plan_ranges.run(flow, clusters, until_ms=until_ms, topics=topics, snapshot=snapshot)
        beaten_into = heartbeats.missing_on_source(flow, clusters.source)
        mirrored = _mirrored(flow, clusters, discovery)
    notes = metadata.notes + tuple(filter(None, [mirrored]))
    if beaten_into:
        notes += (f"{beaten_into} is to be made on {flow.source.alias} first, and copied",)
    upcoming = _upcoming(flow, discovery, topics)
    if flow.observed and upcoming:
        names = listed([topic.topic for topic in upcoming])
        notes, upcoming = (*notes, f"nobody has copied {names} to {flow.target.alias}"), ()
    for note in notes:
        warn(f"{flow.name}: {note}")
    return FlowPlan(
        flow=flow.name,
        changes=metadata.changes,
        refused=metadata.refused,
        problems=metadata.problems,
        left_out=discovery.left_out,
        notes=notes,
        ranges=ranges.ranges,
        stopped=ranges.stopped,
        upcoming=upcoming,
        lanes=ranges.lanes,
        undecided=ranges.undecided,
        records=ranges.records + sum(topic.records for topic in upcoming),
        held=discovery.stands_by,
        paused=tuple(topic.topic for topic in discovery.paused_topics),
        orphans=discovery.orphans,
        lives=metadata.lives,
        needs_person=bool(
            waiting_for_a_person(flow, metadata.problems) or metadata.refused or ranges.stopped or mirrored
        ),
    )


def _mirrored(flow: FlowSettings, clusters: Clusters, discovery: Discovery) -> str:
    """Say why the first cycle would be refused because of MirrorMaker 2; "" if it would not."""
    from twinlog.copying.mirror_maker import require_taken_over

    try:
        require_taken_over(flow, clusters, discovery)
    except TerminalError as error:
        return str(error)
    return ""


def _upcoming(
    flow: FlowSettings, discovery: Discovery, topics: frozenset[str] | None
) -> tuple[UpcomingTopic, ...]:
    return tuple(
        UpcomingTopic(
            topic.topic,
            topic.remote_topic,
            topic.partition_count,
            sum(partition.source_end(flow) - partition.source.log_start for partition in topic.partitions),
        )
        for topic in discovery.unblocked
        if topic.remote is None and (topics is None or topic.topic in topics)
    )


def _grids(plan: FlowPlan, work: str) -> Iterator[Grid]:
    yield Grid.of(
        f"{plan.flow}: topics of the target",
        "change: kind | topic: name | partitions | replication",
        plan.changes,
        "nothing to create or grow",
        replication=lambda it: it.replication_factor or None,
    )
    yield Grid(
        f"{plan.flow}: to {work}, at most {plan.records:,} records",
        ("topic", "partition", "to topic", "from offset", "to offset", "records"),
        [
            *(
                (span.topic, span.partition, span.remote_topic, span.start, span.end, span.end - span.start)
                for span in plan.ranges
            ),
            *((topic.topic, None, topic.remote_topic, None, None, topic.records) for topic in plan.upcoming),
        ],
        empty=f"nothing to {work}",
    )
    yield Grid.of(
        f"{plan.flow}: undecided, not copied before a transaction of the source ends (see twinlog status)",
        "topic | partition | from offset: start | to offset: end | records",
        plan.undecided,
        records=lambda it: it.end - it.start,
    )
    yield Grid(
        f"{plan.flow}: left alone",
        ("topic", "on", "why"),
        [
            *((name, "source", "paused") for name in plan.paused),
            *(
                (orphan.remote_topic, "target", f"{orphan.topic}: {orphan.kind.value}")
                for orphan in plan.orphans
            ),
        ],
    )
    if plan.lives is not None and (plan.lives.gaps or plan.lives.notes):
        columns = (
            "topic | partition | from offset: first_offset | to offset: last_offset | cause"
            " | copied on: copied_past"
        )
        yield Grid.of(f"{plan.flow}: gaps to be noted", columns, plan.lives.gaps, "none")
    trouble = [
        *((problem.topic, None, problem.message, problem.hint) for problem in plan.problems),
        *((refusal.name, None, refusal.message, refusal.hint) for refusal in plan.refused),
        *(
            (partition.topic, partition.partition, partition.message, partition.hint)
            for partition in plan.stopped
        ),
    ]
    yield Grid(f"{plan.flow}: in the way", ("topic", "partition", "what", "what to do"), trouble)


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

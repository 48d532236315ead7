"""`twinlog status`: how far the copy is behind, in records and seconds, and what is wrong with it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from twinlog.cli import options
from twinlog.cli.flows import ask_each, load_flows_and_ways_home
from twinlog.cli.render import Diff, Grid, parts, say, show
from twinlog.cli.replication.gap import grid as gap_grid
from twinlog.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.monitoring.status import FlowStatus, StoppedTopic, TopicStatus


_UNKNOWN: Mapping[str, Any] = {
    "state": "unknown",
    "rpo_seconds": None,
    "lag_records": None,
    "topics": [],
    "gaps": [],
    "incarnations": [],
}


def status(
    *, config: options.ConfigOption, flow: options.FlowOption = None, topics: options.TopicsOption = None
) -> int:
    """Show lag in records and seconds, gaps and the state of each flow.

    Exit code 1: a topic or a partition is stopped, and no cycle copies it before a person acts.  3: a cluster is out of
    reach; what the target knows is shown.

    With --topic the tables are of these topics; sums, readiness and exit code stay the whole flow's.

    Example: `twinlog status --flow 'A->B'`. Next: `twinlog gate`.
    """
    named = options.parse_topics(topics)

    def ask(one: FlowSettings) -> FlowStatus:
        whole = status_of(one)
        only_topics(whole, named)
        return whole

    done = ask_each(load_flows_and_ways_home(config, flow), ask)
    seen = [result.found for result in done.results if result.found is not None]
    documents = [
        replace(told, found=told.found and only_topics(told.found, named)).document(**_UNKNOWN)
        for told in done.results
    ]
    show({"flows": documents}, (grid for whole in seen for grid in _grids(whole, named)))
    for flow_status in seen:
        if not flow_status.source_reachable:
            say(
                f"{flow_status.flow}: the source is out of reach, so how far the copy is behind now is not known"
            )
    return max([done.exit_code, *map(_exit_code, seen)])


def _exit_code(status: FlowStatus) -> ExitCode:
    if status.needs_person:
        return ExitCode.SAYS_NO
    return ExitCode.DONE if status.source_reachable else ExitCode.CLUSTER


def status_of(flow: FlowSettings) -> FlowStatus:
    """Ask both clusters; if the source is gone, return the last known state."""
    from twinlog.cluster.api import open_clusters
    from twinlog.monitoring import status as step
    from twinlog.recovery.reverse import as_noted

    with open_clusters(flow) as clusters:
        return step.run(as_noted(flow, clusters.target), clusters)


_BY_TOPIC = (
    "topics",
    "gaps",
    "incarnations",
    "problems",
    "paused",
    "orphans",
    "undecided",
    "stopped",
    "stopped_partitions",
)


def only_topics(status: FlowStatus, named: frozenset[str] | None) -> FlowStatus:
    """Leave out what is about other topics; sums stay the flow's.  Raises UsageError for a topic that it lacks."""
    left: dict[str, Any] = {part: options.of_topics(getattr(status, part), named) for part in _BY_TOPIC}
    lacking = (named or frozenset()).difference(item.topic for part in left.values() for item in part)
    if lacking:
        raise UsageError(
            f"nothing is known of topic {min(lacking)}: the flow does not copy it",
            "--topic takes names of source topics",
            flow=status.flow,
        )
    return replace(status, **left)


_OF_TOPIC = (
    "topic | to topic: remote_topic | partitions | lag (records): lag_records"
    " | undecided: undecided_records | bytes, about: lag_bytes | oldest not copied (s): rpo_seconds"
    " | RPO (s): rpo_budget_seconds | note: mark"
)


def _headline(status: FlowStatus) -> Iterator[tuple[str, str]]:
    """Say whether the flow is ready for a failover, in colours; what makes that idle comes before it."""
    if not status.has_run:
        yield "bold red", f"{status.flow}: NEVER RAN: `twinlog run --once`, or unpause its Dag"
    elif status.stands_still:
        since = f"no cycle has ended for {status.cycle_age_seconds:,.0f} s"
        yield (
            "bold red",
            f"{status.flow}: STANDS STILL: {since}; `twinlog run`, or see its Dag and the scheduler",
        )
    if not status.source_reachable:
        yield "bold red", f"{status.flow}: THE SOURCE IS OUT OF REACH: what the gate said, it said before"
    told = "; ".join(
        readiness.told
        if readiness.age_seconds is None
        else f"{readiness.told}, {readiness.age_seconds:,.0f} s ago"
        for readiness in status.readiness
    )
    answers = {readiness.ready for readiness in status.readiness}
    ready = True in answers and status.source_reachable
    colour = "bold red" if False in answers else "bold green" if ready else "bold"
    yield colour, f"{status.flow}: {told}"


def _grids(whole: FlowStatus, named: frozenset[str] | None = None) -> Iterator[Grid | Diff]:
    yield Diff(tuple(_headline(whole)))
    status = only_topics(whole, named)
    yield Grid.of(f"{status.flow}: in the way", "topic | what: message | what to do: hint", status.problems)
    copied = Grid.of(
        _title(whole),
        _OF_TOPIC,
        status.topics,
        "no topic",
        partitions=lambda it: len(it.partitions),
        mark=_mark,
    )
    stopped = [
        (topic.topic, topic.remote_topic, topic.partitions, *(None,) * 5, f"stopped: {topic.message}")
        for topic in status.stopped
    ]
    empty = copied.empty if status.source_reachable else "the source cannot be asked"
    yield replace(copied, rows=[*stopped, *copied.rows], empty=empty)
    yield Grid.of(
        f"{status.flow}: partitions that stopped in the last cycle, until a person acts (docs/errors.md)",
        "topic | partition | why: message",
        status.stopped_partitions,
    )
    yield Grid.of(
        f"{status.flow}: processes that follow it",
        "role | host | process: pid | version | configuration: config | run: run_id",
        status.members,
        config=lambda it: it.config[:12],
    )
    yield Grid.of(
        f"{status.flow}: committed by its lanes since the last fence, each as of its last commit",
        "lane | last commit (s ago): age_seconds | records | bytes | transactions: commits | refused: retries"
        " | held up by quotas (s): throttled_seconds | still to copy: behind_records",
        status.lanes,
    )
    yield Grid.of(
        f"{status.flow}: undecided, not copied before a transaction of the source ends",
        "what: message | what to do: hint",
        status.undecided,
    )
    yield Grid.of(
        f"{status.flow}: heartbeats in the target's topics",
        "flow that wrote them: flow | copied through: chain | newest (s ago): age",
        status.upstream,
        flow=lambda it: f"{it.source_alias}->{it.target_alias}",
        chain=lambda it: " <- ".join(it.chain),
        age=lambda it: f"{it.age_ms / 1000:,.1f}",
    )
    if status.risk_history:
        worst = max(status.risk_history, key=lambda it: it.age_ms)
        yield Grid(
            f"{status.flow}: the most that was at risk in the last day, as cycles saw it",
            ("records", "bytes, about", "oldest not copied (s)", "cycles seen in slots of 5 min"),
            [
                (
                    max(sample.records for sample in status.risk_history),
                    max(
                        (sample.bytes for sample in status.risk_history if sample.bytes is not None),
                        default=None,
                    ),
                    # unknown if it is 0 and the age of some samples was
                    worst.age_ms / 1000
                    if worst.age_ms or all(sample.age_known for sample in status.risk_history)
                    else None,
                    len(status.risk_history),
                )
            ],
        )
    yield Grid.of(
        f"{status.flow}: copied, but the offset map has lost where to (map-lost)",
        "topic | partition | offsets: unmapped_offsets",
        (part for part in parts(status.topics) if part["unmapped_offsets"]),
    )
    yield Grid.of(
        f"{status.flow}: copied, and deleted from the copy though the source holds it (deleted-early)",
        "topic | partition | records, at most: deleted_early | what_to_do",
        (part for part in parts(status.topics) if part["deleted_early"]),
        what_to_do=lambda it: (
            "let the engine copy it anew"
            if status.observed
            else f"twinlog topics rebuild --topic {shlex.quote(it['topic'])}"
        ),
    )
    yield gap_grid(status.flow, status.gaps)
    yield Grid.of(f"{status.flow}: paused topics", "topic | since | by | reason", status.paused)
    yield Grid.of(
        f"{status.flow}: copies that nothing is copied into",
        "copy: remote_topic | source topic: topic | why: kind | reason",
        status.orphans,
    )


def _mark(topic: TopicStatus) -> str:
    notes = (
        "heartbeats, no topic of users" if topic.heartbeats else "",
        "over its RPO" if topic.over_budget else "",
    )
    return "; ".join(filter(None, notes))


def _title(status: FlowStatus) -> str:
    by = f", copied by {status.copied_by} and only observed" if status.observed else ""
    told = f"{status.held or status.state.value}{by}"
    stopped = f", {_stopped(status.stopped)}" if status.stopped else ""
    if status.stopped_partitions:
        stopped += f", {len(status.stopped_partitions):,} partitions stopped until a person acts"
    last = f"; by the last report, of {status.as_of}:" if status.as_of else ","
    end = ";" if status.held else ","
    source = end if status.source_reachable else f"{end} the source is out of reach{last}"
    return f"{status.flow}: {told}{stopped}{source} {_behind(status)}"


def _stopped(stopped: Sequence[StoppedTopic]) -> str:
    topics = f"{len(stopped):,} topic{'s' if len(stopped) > 1 else ''} stopped"
    act = " until a person acts" if any(topic.person for topic in stopped) else ""
    return f"{topics}{act} (why: in the table; what to do: under `in the way`)"


def _behind(status: FlowStatus) -> str:
    """Say how far the copy is behind; before the first cycle nothing was copied, and 0 would say otherwise."""
    gone = sum(row.deleted_early for topic in status.topics for row in topic.partitions)
    early = f", {gone:,} deleted from the copy early" if gone else ""
    undecided = f", {status.undecided_records:,} undecided" if status.undecided_records else ""
    unseen = f", {status.unseen_partitions:,} partitions not looked at" if status.unseen_partitions else ""
    if not status.has_run:
        work = "read" if status.observed else "copy"
        waiting = f"; {status.lag_records:,} records to {work}" if status.lag_records else ""
        return f"no cycle has ever ended{waiting}{undecided}{unseen}"
    known = sum(topic.lag_records or 0 for topic in status.topics)
    least = f"at least {known:,} records behind" if known else "lag not known"
    lag = least if status.lag_records is None else f"{status.lag_records:,} records behind"
    if status.observed and status.lag_records is None and status.lag_when_read is not None:
        lag += f" now; {status.lag_when_read:,} when the last cycle had read the copy"
    age = (
        ", age of the oldest record not copied: not known"
        if status.rpo_seconds is None
        else f", {status.rpo_seconds:,.1f} s"
    )
    return f"{lag}{early}{undecided}{unseen}{age}"

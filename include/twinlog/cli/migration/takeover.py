"""`twinlog migrate takeover` and `handover`: from MirrorMaker 2 or a group on the source, and to MirrorMaker 2."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from twinlog.cli import options
from twinlog.cli.flows import each_flow, load_flows
from twinlog.cli.options import option
from twinlog.cli.render import Grid, notes_grid, say_step, show
from twinlog.errors import ExitCode, UsageError
from twinlog.jsonable import Json, to_json

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.migration.copier import Copier
    from twinlog.migration.takeover_report import TakeoverReport

ConnectorOption = Annotated[
    str,
    option(
        "--connector NAME",
        "MM2's source connector, such as A->B.MirrorSourceConnector under Strimzi. Default: the flow's own.",
    ),
]
OffsetsTopicOption = Annotated[
    str,
    option(
        "--offsets-topic TOPIC",
        "offset.storage.topic of the Connect workers it runs in. Default: the flow's own.",
    ),
]
WorkerGroupOption = Annotated[
    str, option("--worker-group GROUP", "group.id of these workers. Default: A-mm2.")
]
DepthOption = Annotated[
    int,
    option(
        "--depth RECORDS",
        "How many records before the position to compare, in each partition; must be more than it copies of"
        " one partition between two commits of its positions.",
    ),
]
DryRunOption = Annotated[bool, option("--dry-run", "Compare and report; change nothing.")]
CopierOf = Callable[["FlowSettings"], "Copier"]


def takeover(
    *,
    config: options.ConfigOption,
    flow: options.FlowOption = None,
    connector: ConnectorOption = "",
    offsets_topic: OffsetsTopicOption = "",
    worker_group: WorkerGroupOption = "",
    source_group: Annotated[
        str,
        option(
            "--source-group GROUP",
            "It was no MM2, but a program that commits its positions as this group on the source, as"
            " MirrorMaker 1.",
        ),
    ] = "",
    topics: options.TopicsOption = None,
    depth: DepthOption = 10_000,
    dry_run: DryRunOption = False,
) -> int:
    """Take flows over from a stopped MirrorMaker: prove where its copies end, and go on from there.

    Example: `twinlog migrate takeover --flow 'A->B' --dry-run`. Next: `twinlog run --once`.
    """
    from twinlog.migration import takeover as migration
    from twinlog.migration.copier import Origin, SourceGroup

    chosen, names = options.parse_topics(topics), (connector, offsets_topic, worker_group)
    if source_group and any(names):
        raise UsageError(
            "--source-group is of a program that is no MM2",
            "leave out --connector, --offsets-topic and --worker-group",
        )

    def copier(one: FlowSettings) -> Copier:
        return SourceGroup(source_group) if source_group else Origin.of(one, *names)

    flows = _flows(config, flow, (*names, source_group), depth)
    return _each(flows, partial(migration.run, depth=depth, topics=chosen, dry_run=dry_run), copier)


def handover(
    *,
    config: options.ConfigOption,
    flow: options.FlowOption = None,
    connector: ConnectorOption = "",
    offsets_topic: OffsetsTopicOption = "",
    worker_group: WorkerGroupOption = "",
    depth: DepthOption = 10_000,
    dry_run: DryRunOption = False,
) -> int:
    """Hand flows over to MirrorMaker 2, which goes on without a duplicate; pauses them here.

    Example: `twinlog migrate handover --flow 'A->B' --dry-run`. Next: `twinlog status`.
    """
    from twinlog.migration import handover as migration
    from twinlog.migration.copier import Origin

    names = connector, offsets_topic, worker_group
    flows = _flows(config, flow, names, depth)
    return _each(
        flows, partial(migration.run, depth=depth, dry_run=dry_run), lambda it: Origin.of(it, *names)
    )


def _flows(
    config: Path, flow: list[str] | None, names: tuple[str, ...], depth: int
) -> tuple[FlowSettings, ...]:
    if depth < 1:
        raise UsageError(f"--depth {depth} compares nothing", "give a number of records, at least 1")
    flows = load_flows(config, flow)
    if len(flows) > 1 and any(names):
        raise UsageError(
            "--connector, --offsets-topic, --worker-group and --source-group are those of one flow",
            "name it with --flow",
        )
    return flows


def _each(flows: tuple[FlowSettings, ...], run: Callable[..., TakeoverReport], copier: CopierOf) -> int:
    from twinlog.cluster.api import open_clusters

    def work(one: FlowSettings) -> Json:
        with open_clusters(one) as clusters:
            report = run(one, clusters, copier(one), run_id=uuid.uuid4().hex, told=say_step)
        document: Json = to_json(report)
        return document

    done = each_flow(
        flows, work, lambda one, failure: {"flow": one.name, "state": "failed", "error": to_json(failure)}
    )
    reports = [result for result in done.results if "error" not in result]
    show({"flows": list(done.results)}, (grid for it in reports for grid in _grids(it)))
    refused = any(it["state"] == "refused" for it in reports)
    return max(done.exit_code, ExitCode.of(not refused))


def _grids(report: Json) -> Iterator[Grid]:
    columns = (
        "topic | partition | ends: state | position | last offset: last_upstream | compared | beyond"
        " | twice: duplicates | mapped"
    )
    yield Grid.of(_title(report), columns, report["partitions"], "nothing is replicated")
    columns = "topic | partition | what: message | what to do: hint"
    yield Grid.of("to look at", columns, (it for it in report["partitions"] if it["message"]))
    yield notes_grid(report["notes"])


def _title(report: Json) -> str:
    way = "from MirrorMaker" if report["direction"] == "from-mirror-maker" else "to MirrorMaker"
    found = (
        f"{report['beyond']:,} record(s) copied beyond the positions, {report['duplicates']:,} copied twice"
    )
    written = f"; {report['positions_written']:,} position(s) written" if report["state"] == "done" else ""
    nothing = "; nothing was changed" if report["state"] in {"refused", "dry-run"} else ""
    return f"{report['flow']} {way}: {report['state']}; {found}{written}{nothing}"

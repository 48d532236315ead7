"""`twinlog groups`: what every group's position on the target is worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinlog.cli import options
from twinlog.cli.flows import each_flow, load_flows
from twinlog.cli.render import Grid, notes_grid, show
from twinlog.errors import ExitCode
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.groups.report import CheckpointsResult

AtOption = Annotated[
    str | None,
    typer.Option("--at", metavar="TIME", help="Where each group stood at a time, by what cycles have noted."),
]


def groups(
    *,
    config: options.ConfigOption,
    flow: options.FlowOption = None,
    pattern: options.GroupsOption = "",
    at: AtOption = None,
    strict: options.StrictOption = False,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """Report where each group would go on, and whether that is right; exit 1 when one is wrongly not synced.

    With --at it reports where each group stood at that time; exit 1 when a place on the target is not known.
    """
    from twinlog.policy.selection import NameFilter

    wanted = NameFilter((pattern,)) if pattern else None
    at_ms = None if at is None else options.parse_moment(at, "--at")

    def shown(one: FlowSettings) -> dict[str, Any]:
        document: dict[str, Any] = to_json(_report(one)) if at_ms is None else _past(one, at_ms)
        if wanted is not None:
            for part in ("rows", "uncovered", "ages") if at_ms is None else ("rows",):
                document[part] = [it for it in document[part] if wanted.accepts(it["group"])]
            if at_ms is None:
                document["groups"] = len({it["group"] for it in document["rows"]})
        return document

    done = each_flow(
        load_flows(config, flow, strict=strict),
        shown,
        lambda one, failure: {"flow": one.name, "error": to_json(failure)},
    )
    reports = [it for it in done.results if "error" not in it]
    tables = _grids if at_ms is None else _past_grids
    show({"flows": list(done.results)}, output, (grid for it in reports for grid in tables(it)))
    wrongly = any(
        row["state"] == "wrongly-not" if at_ms is None else row["downstream_offset"] is None
        for it in reports
        for row in it["rows"]
    )
    return max(done.exit_code, int(ExitCode.SAYS_NO) if wrongly else 0)


def _report(flow: FlowSettings) -> CheckpointsResult:
    """Read the groups, and change nothing."""
    from twinlog.groups import checkpoints
    from twinlog.state.own_clusters import open_own_clusters

    with open_own_clusters(flow) as clusters:
        return checkpoints.run(flow, clusters, dry_run=True)


def _past(flow: FlowSettings, at_ms: int) -> dict[str, Any]:
    """Read where the groups stood; the source is not asked."""
    from twinlog.groups import time_machine
    from twinlog.state.ledger import read_ledger
    from twinlog.state.own_clusters import open_own_clusters

    with open_own_clusters(flow) as clusters:
        ledger = read_ledger(flow, clusters.target)
        found = time_machine.past(flow, clusters.target, ledger, at_ms)
    return {"flow": flow.name, "begins_ms": ledger.group_looks[0].at_ms, **to_json(found)}


def _past_grids(report: dict[str, Any]) -> Iterator[Grid]:
    from twinlog.clock import iso

    title = f"{report['flow']}: groups at {iso(report['at_ms'])}; the history begins at {iso(report['begins_ms'])}"
    columns = (
        "group | topic: remote_topic | partition | upstream: upstream_offset"
        " | downstream: downstream_offset | exact | : stood | seen | next_look | why: text"
    )
    yield Grid.of(
        title,
        columns,
        report["rows"],
        "no group had committed offsets of what is replicated",
        seen=lambda it: iso(it["as_of_ms"]),
        next_look=lambda it: None if it["until_ms"] is None else iso(it["until_ms"]),
    )
    yield notes_grid(report["untold"], "not told by the source around then", "group")


def _grids(report: dict[str, Any]) -> Iterator[Grid]:
    columns = (
        "group | topic: remote_topic | partition | upstream: upstream_offset"
        " | downstream: downstream_offset | exact | committed_there | state"
        " | again: expected_duplicates | skipped: records_skipped | why: text"
    )
    nothing = "no group has committed offsets of what is replicated"
    yield Grid.of(_title(report), columns, report["rows"], nothing)
    columns = "group | type | why: reason"
    yield Grid.of(f"{report['flow']}: not covered", columns, report["uncovered"])
    yield notes_grid(report["notes"])


def _title(report: dict[str, Any]) -> str:
    states = [it["state"] for it in report["rows"]]
    counts = ", ".join(
        f"{states.count(state):,} {state}" for state in ("synced", "intentionally-not", "wrongly-not")
    )
    return f"{report['flow']}: {report['groups']:,} groups, positions: {counts}"

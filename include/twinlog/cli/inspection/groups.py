"""`twinlog groups`: what every group's position on the target is worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinlog.cli import options
from twinlog.cli.flows import each_flow, load_flows
from twinlog.cli.render import Grid, notes_grid, show
from twinlog.errors import ExitCode
from twinlog.jsonable import Json, to_json

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings


def groups(
    *,
    config: options.ConfigOption,
    flow: options.FlowOption = None,
    topics: options.TopicsOption = None,
    pattern: options.GroupsOption = "",
) -> int:
    """Report where each group would go on, and whether that is right; exit 1 when one is wrongly not synced.

    Example: `twinlog groups --flow 'A->B'`. Next: `twinlog translate`.
    """
    from twinlog.groups import checkpoints
    from twinlog.policy.selection import NameFilter
    from twinlog.state.own_clusters import open_own_clusters

    wanted, named = NameFilter((pattern,)) if pattern else None, options.parse_topics(topics)

    def shown(one: FlowSettings) -> Json:
        with open_own_clusters(one) as clusters:
            document = dict(to_json(checkpoints.run(one, clusters, dry_run=True)))
        if wanted is not None:
            for part in ("rows", "uncovered", "ages"):
                document[part] = [it for it in document[part] if wanted.accepts(it["group"])]
        if named is not None:
            document["rows"] = [row for row in document["rows"] if row["topic"] in named]
        if wanted is not None or named is not None:
            document["groups"] = len({row["group"] for row in document["rows"]})
        return document

    done = each_flow(
        load_flows(config, flow), shown, lambda one, failure: {"flow": one.name, "error": to_json(failure)}
    )
    reports = [result for result in done.results if "error" not in result]
    asked = "no group that was asked for" if pattern or topics else "no group"
    nothing = f"{asked} has committed offsets of what is replicated"
    show({"flows": list(done.results)}, (grid for report in reports for grid in _grids(report, nothing)))
    wrongly = any(row["state"] == "wrongly-not" for report in reports for row in report["rows"])
    return max(done.exit_code, ExitCode.of(not wrongly))


def _grids(report: Json, nothing: str) -> Iterator[Grid]:
    columns = (
        "group | topic: remote_topic | partition | upstream: upstream_offset"
        " | downstream: downstream_offset | exact | committed_there | state"
        " | again: expected_duplicates | skipped: records_skipped | why: text"
    )
    yield Grid.of(_title(report), columns, report["rows"], nothing)
    columns = "group | type | why: reason"
    yield Grid.of(f"{report['flow']}: not covered", columns, report["uncovered"])
    yield notes_grid(report["notes"])


def _title(report: Json) -> str:
    states = [it["state"] for it in report["rows"]]
    counts = ", ".join(
        f"{states.count(state):,} {state}" for state in ("synced", "intentionally-not", "wrongly-not")
    )
    return f"{report['flow']}: {report['groups']:,} groups, positions: {counts}"

"""`twinlog drill`: try on the standby, while the flow follows, what a failover promises; and list earlier drills."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.options import ConfigOption, GroupsOption, OneFlowOption, option
from twinlog.cli.recovery.gate import ModeOption
from twinlog.cli.render import Grid, login, say, say_step, show, steps_grid
from twinlog.jsonable import to_json
from twinlog.judge.check import Mode

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.drill.report import DrillReport


class What(StrEnum):
    """Name what to do: drill, or list the drills that the ledger keeps."""

    RUN = "run"
    HISTORY = "history"


def drill(
    what: Annotated[
        What, Argument(help="run: drill now; history: list the drills of the ledger.")
    ] = What.RUN,
    *,
    config: ConfigOption,
    flow: OneFlowOption = None,
    pattern: GroupsOption = ".*",
    mode: ModeOption = Mode.PLANNED,
    most: Annotated[int, option("--most N", "Drill at most N groups.", min=1)] = 20,
) -> int:
    """Clone groups on the target, really read with them there, and say whether each went on at the right record.

    Exit 0: passed. 1: a record was wrong, a step failed, a clone is left, or nothing was there to be read. 3: a cluster
    cannot be reached or refuses.

    Example: `twinlog drill --groups 'billing.*'`. Next: `twinlog drill history`.
    """
    from twinlog.drill import drill as drilling
    from twinlog.policy.selection import NameFilter

    configuration, chosen = load_one_flow(config, flow)
    if what is What.HISTORY:
        return _history(chosen)
    request = drilling.Request(login(), NameFilter((pattern,)), most, source_dead=mode is Mode.SOURCE_DEAD)
    with clusters_with_ledger(chosen) as clusters:
        tools = drilling.Tools.of(configuration, chosen, say_step)
        report = drilling.run(chosen, clusters, request, tools)
    show(report.document, _grids(report))
    say(f"{report.flow}: {report.state.value}: {report.message}; evidence {report.evidence}")
    if report.left:
        say(f"{report.flow}: not deleted on {chosen.target.alias}: {', '.join(report.left)}")
    return report.exit_code


def _grids(report: DrillReport) -> Iterator[Grid]:
    yield steps_grid(
        f"{report.flow}: drill {report.state.value}; RTO {_seconds(report.rto_seconds)}, RPO"
        f" {_seconds(report.rpo_seconds)}",
        report.steps,
    )
    columns = (
        "group | topic | partition | upstream: upstream_offset | began at: downstream_offset"
        " | read: read_offset | is there: read_upstream | again | skipped | found | what: message"
    )
    yield Grid.of(f"{report.flow}: groups", columns, report.groups)


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.3f} s"


def _history(flow: FlowSettings) -> int:
    from twinlog.clock import iso
    from twinlog.state.ledger import read_ledger

    with clusters_with_ledger(flow) as clusters:
        drills = tuple(reversed(read_ledger(flow, clusters.target).drills))
    columns = (
        "run | began | state | by | RTO (s): rto_seconds | RPO (s): rpo_seconds | groups | what: message"
    )
    document = {"flow": flow.name, "runs": to_json(drills)}
    show(
        document,
        [Grid.of(f"{flow.name}: drills", columns, drills, "none", began=lambda it: iso(it.started_ms))],
    )
    return 0

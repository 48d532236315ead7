"""`twinlog failover`: promote the target, planned or because the source is lost; and go on after a stop."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli import options
from twinlog.cli.flows import load_flow_or_way_home
from twinlog.cli.options import option
from twinlog.cli.recovery.gate import SignOption
from twinlog.cli.render import Grid, login, parts, person, say, say_step, show, steps_grid
from twinlog.cli.replication.follow import WarmSpark
from twinlog.cli.replication.run import MasterOption
from twinlog.errors import UsageError
from twinlog.judge.check import Mode
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.gate.evidence import Seal
    from twinlog.recovery.report import FailoverReport, PlacedGroup
    from twinlog.recovery.reverse import Way
    from twinlog.recovery.steps.world import Answer, Tools

YesOption = Annotated[bool, option("--yes", "Approve beforehand. Without a terminal it is needed.")]


def failover(
    *,
    config: options.ConfigOption,
    mode: Annotated[
        Mode, option("--mode", "planned: the source is alive, nothing is lost; source-dead: without it.")
    ],
    flow: options.OneFlowOption = None,
    dry_run: options.DryRunOption = False,
    yes: YesOption = False,
    accept: Annotated[
        str, option("--accept REASON", "Accept all that the dry run --seen showed, and say yes.")
    ] = "",
    seen: Annotated[
        str, option("--seen ID", "The dry run you looked at; what has grown since is refused.")
    ] = "",
    sign_with: SignOption = None,
    master: MasterOption = None,
) -> int:
    """Promote the target of a flow, so that clients can work there; run again, it goes on where it stopped.

    Exit 0: promoted, and all steps done. 1: the gate or a person says no, a step failed, or it waits for a person.
    3: a cluster cannot be reached or refuses, or another process goes on with this failover.

    Example: `twinlog failover --mode planned --dry-run`. Next: `twinlog recovery status`.
    """
    from twinlog.cluster.api import open_clusters
    from twinlog.gate.accepting import ways
    from twinlog.gate.evidence import Seal
    from twinlog.recovery import approved
    from twinlog.recovery import failover as recovery
    from twinlog.recovery.reverse import opened_reverse
    from twinlog.recovery.steps.world import Request

    if bool(accept.strip()) != bool(seen) or (accept and (dry_run or yes)):
        raise UsageError("--accept REASON and --seen ID go together, without --yes", "a dry run shows the ID")
    configuration, chosen = load_flow_or_way_home(config, flow)
    seal = Seal.of(configuration, None if dry_run else chosen, sign_with)
    with (
        open_clusters(chosen) as clusters,
        opened_reverse(configuration, chosen) as reverse,
        WarmSpark() as spark,
    ):
        tools = tools_of(seal, spark, master or chosen.copy.spark_master, reverse, yes=yes)
        if accept:
            approval = approved.accepting(chosen, clusters.target, mode, seen, person(), accept.strip())
            report = approved.run(chosen, clusters, mode, approval, tools)
        else:
            report = recovery.run(chosen, clusters, Request(login(), mode, dry_run=dry_run), tools)
        if dry_run:
            report = approved.kept(chosen, clusters.target, report)
    show(report.document, _grids(report))
    for way in ways(report.flow, report.accept, report.seen):
        say(f"{report.flow}: to accept it: {way}")
    if report.seen:
        say(
            f"{report.flow}: all of this dry run is accepted by --accept REASON --seen {shlex.quote(report.seen)}"
        )
    if report.next:
        say(f"{report.flow}: {report.next}")
    return report.exit_code


def tools_of(seal: Seal, spark: WarmSpark, master: str, reverse: Way | None, *, yes: bool) -> Tools:
    """Return what a failover or a way home needs of a terminal: it asks a person there, and tells each step."""
    from twinlog.recovery.steps.world import Tools

    return Tools(
        copies=lambda: spark.runner(master),
        approve=lambda question: answer(question, yes=yes),
        sleep=time.sleep,
        seal=seal,
        told=say_step,
        reverse=reverse,
    )


def answer(question: str, *, yes: bool) -> Answer:
    """Ask on the terminal; `yes` answers beforehand, and without a terminal nobody answers."""
    from twinlog.recovery.steps.world import Answer

    if yes:
        return Answer.YES
    if not sys.stdin.isatty():
        return Answer.NOBODY
    return Answer.YES if typer.confirm(visible(question), err=True) else Answer.NO


def _grids(report: FailoverReport) -> Iterator[Grid]:
    yield steps_grid(f"{report.flow} ({report.mode.value}): {report.headline}", report.steps)
    columns = (
        "topic | copy: remote_topic | partition | end there: upstream_end | end of the copy: downstream_end"
        " | records | about, by the rate: estimated_records"
    )
    yield Grid.of(
        f"{report.flow}: not on the target",
        columns,
        (
            part
            for part in parts(report.topics)
            if part["known"] or part["estimated_records"] or part["unseen"]
        ),
        records=lambda it: "not known" if it["unseen"] else it["known"],
    )
    yield groups_grid(report.flow, report.groups)


def groups_grid(flow: str, groups: Sequence[PlacedGroup]) -> Grid:
    """Show where groups were placed."""
    columns = (
        "group | topic | partition | upstream: upstream_offset | downstream: downstream_offset"
        " | read again: again | skipped"
    )
    return Grid.of(
        f"{flow}: groups", columns, groups, again=lambda it: "not known" if it.again is None else it.again
    )

"""`twinlog failback`: bring clients home once the source is back; or only save what it alone has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from typer import Option

from twinlog.cli.flows import clusters_with_ledger, load_flow_or_way_home, load_one_flow
from twinlog.cli.options import ConfigOption, DryRunOption, OneFlowOption, option
from twinlog.cli.recovery.failover import YesOption, groups_grid, tools_of
from twinlog.cli.recovery.gate import SignOption
from twinlog.cli.render import Grid, login, parts, say, say_step, show, steps_grid
from twinlog.cli.replication.follow import WarmSpark
from twinlog.cli.replication.run import MasterOption
from twinlog.errors import TerminalError, UsageError
from twinlog.recovery.procedure import Tail

if TYPE_CHECKING:
    from twinlog.recovery.report import FailbackReport


def failback(
    *,
    config: ConfigOption,
    flow: OneFlowOption = None,
    save: Annotated[
        bool,
        option(
            "--save",
            "Only count what is on one side alone, and export what was never copied. The flow stays promoted.",
        ),
    ] = False,
    home: Annotated[bool, Option("--home", hidden=True)] = False,
    tail: Annotated[
        Tail | None, option("--tail", "What becomes of records that the source alone has.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    master: MasterOption = None,
    sign_with: SignOption = None,
) -> int:
    """Bring clients home after a failover, once the source is back; run again, it goes on where it stopped.

    What the source alone has is exported. What clients wrote on the target comes home, by the flow in the other
    direction if topics keep their names, else from each copy into its topic.

    Exit 0: every step is done; with --save: every partition was looked at, and all of it is exported. 1: the flow is
    not promoted, a step failed or waits, the gate or a person says no; run it again. 3: a cluster cannot be reached or
    refuses, or another process goes on with the way home.

    Example: `twinlog failback --dry-run --flow 'A->B'`. Next: `twinlog recovery status`.
    """
    from twinlog.gate.evidence import Seal
    from twinlog.recovery.failback import failback as saving
    from twinlog.recovery.failback import home as going
    from twinlog.recovery.reverse import opened_reverse
    from twinlog.recovery.steps.world import Request
    from twinlog.recovery.ways_home import way_home

    if save:
        if tail is not None:
            raise UsageError("--tail is about the way home", "leave out --save")
    elif not (home or dry_run or yes or sys.stdin.isatty()):
        raise TerminalError(
            "failback brings clients home, and without a terminal nobody can approve that: nothing was begun",
            "--yes approves it beforehand; --save only counts what is on one side alone, and exports it",
            code="not-approved",
        )
    configuration, chosen = (load_flow_or_way_home if save else load_one_flow)(config, flow)
    asked = Request(login(), tail=tail, dry_run=dry_run)
    if save:
        with clusters_with_ledger(chosen) as clusters:
            report = saving.save(configuration, chosen, clusters, asked, say_step, sign_with)
    else:
        back = way_home(configuration, chosen)
        seal = Seal.of(configuration, None if dry_run else chosen, sign_with)
        with (
            going.target_awaited(chosen, back),
            clusters_with_ledger(chosen) as clusters,
            opened_reverse(configuration, chosen) as usual,
            WarmSpark() as spark,
        ):
            tools = tools_of(seal, spark, master or chosen.copy.spark_master, usual, yes=yes)
            report = going.go(configuration, chosen, clusters, asked, tools)
    show(report.document, _grids(report))
    say(f"{report.flow}: {report.next}")
    return report.exit_code


def _grids(report: FailbackReport) -> Iterator[Grid]:
    yield steps_grid(f"{report.flow}, failback: {report.headline}", report.steps)
    columns = (
        "topic | copy: remote_topic | partition | from there: upstream_from | to: upstream_end"
        " | only there: at_risk_records | from here: downstream_from | to: downstream_end"
        " | only here: only_on_target_records | comes_home"
    )
    apart = (
        part for part in parts(report.topics) if part["at_risk_records"] or part["only_on_target_records"]
    )
    when = " before they came home" if report.state == "following" else ""
    yield Grid.of(f"{report.flow}: on one side alone{when}", columns, apart)
    yield groups_grid(report.flow, report.groups)
    columns = "file: path | records | SHA-256: sha256"
    yield Grid.of(f"{report.flow}: files", columns, report.files)

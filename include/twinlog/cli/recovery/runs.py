"""`twinlog recovery status|abort|follow`: where a failover stands, what was done, and the way back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from twinlog.cli.flows import clusters_with_ledger, load_flow_or_way_home
from twinlog.cli.options import ConfigOption, OneFlowOption, option
from twinlog.cli.recovery.failover import YesOption
from twinlog.cli.render import Grid, confirm, login, notes_grid, say, show
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.recovery.abort import AbortResult
    from twinlog.recovery.history import RunStatus


def status(*, config: ConfigOption, flow: OneFlowOption = None) -> int:
    """Say where the flow's failover stands, what can be done now, and which failovers and failbacks there were.

    Example: `twinlog recovery status --flow 'A->B'`. Next: `twinlog failback --dry-run`.
    """
    from twinlog.recovery import history as step
    from twinlog.recovery.report import at_risk

    _, chosen = load_flow_or_way_home(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        found, runs = step.status(chosen, clusters), step.history(chosen, clusters)
    title = f"{found.flow}: {found.state}" + (f", by {found.by}: {found.reason}" if found.by else "")
    run = () if found.run is None else _journal(title, found.run)
    under_way = run or [notes_grid((), title, empty="no failover is under way")]
    show({**to_json(found), "runs": to_json(runs)}, [*under_way, _earlier(found.flow, runs)])
    if found.left_on_source is not None:
        left = at_risk(found.left_on_source)
        unseen = f"; {left.doubt}" if left.doubt else ""
        say(
            f"{found.flow}: the source answers again; up to {left.least:,} records are on it alone, by offsets (markers"
            f" and aborted records count){unseen}"
        )
    say(f"{found.flow}: {found.next}")
    return 0


ReasonOption = Annotated[str, option("--reason TEXT", "Why; kept in the journal.")]


def abort(
    *,
    config: ConfigOption,
    reason: ReasonOption,
    flow: OneFlowOption = None,
) -> int:
    """Roll back the failover that is under way: the flow is as before. A way home leaves clients where they are.

    A failover without the source of a flow that copied home leaves it on the way home.

    Exit 1 after the promotion, without a failover, and while something is left that a person has to undo.

    Example: `twinlog recovery abort --reason 'A answers again'`. Next: `twinlog recovery status`.
    """
    from twinlog.recovery import abort as step
    from twinlog.recovery.reverse import opened_way_home

    configuration, chosen = load_flow_or_way_home(config, flow)
    with clusters_with_ledger(chosen) as clusters, opened_way_home(configuration, chosen) as reverse:
        done = step.run(chosen, clusters, reverse, by=login(), reason=reason)
    return _shown(done)


def follow(
    *,
    config: ConfigOption,
    reason: ReasonOption,
    flow: OneFlowOption = None,
    yes: YesOption = False,
) -> int:
    """Let a promoted flow follow again, after a failback by hand: its clients are on the source again.

    Also for a flow whose source was promoted because the target was lost, once the target is back.

    Exit 1 for a flow that is not promoted, and while something is left that a person has to undo.

    Example: `twinlog recovery follow --reason 'clients are on A'`. Next: `twinlog run --once`.
    """
    from twinlog.recovery import abort as step
    from twinlog.recovery.reverse import opened_way_home

    configuration, chosen = load_flow_or_way_home(config, flow)
    if not yes:
        confirm(
            f"{chosen.name} will copy again, and producers lose their rights on {chosen.target.alias};"
            f" {chosen.source.alias} has to have all that was written there"
        )
    with clusters_with_ledger(chosen) as clusters, opened_way_home(configuration, chosen) as reverse:
        done = step.follow(chosen, clusters, reverse, by=login(), reason=reason)
    return _shown(done)


def _shown(done: AbortResult) -> int:
    now = f"is still {done.suspended}" if done.suspended else "follows again"
    title = {
        "promoted": f"{done.flow} is promoted as before",
        "failing-over": f"{done.flow} copies home as before; its target is not promoted",
    }.get(done.state, f"{done.flow} {now}; {done.run} {done.state}")
    show(to_json(done), [notes_grid(done.left, title, "left to do", "nothing")])
    return done.exit_code


def _earlier(flow: str, runs: Sequence[RunStatus]) -> Grid:
    from twinlog.clock import iso

    columns = (
        "run | mode | state | by | began | seconds | RTO (s): rto_seconds | RPO (s): rpo_seconds"
        " | known to be lost: known | evidence"
    )
    return Grid.of(f"{flow}: failovers and failbacks", columns, runs, began=lambda it: iso(it.started_ms))


def _journal(title: str, run: RunStatus) -> Iterator[Grid]:
    from twinlog.clock import iso

    yield Grid.of(
        f"{title}; {run.run}, {run.mode}",
        "when | step | state | seconds | by | what: message",
        run.journal,
        "nothing was done yet",
        when=lambda it: iso(it.at_ms),
    )

"""`twinlog waiver`: who answers for going on although a check of the gate fails, why, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twinlog import clock
from twinlog.cli import options
from twinlog.cli.flows import clusters_with_ledger, load_flow_or_way_home
from twinlog.cli.render import Grid, show, warn
from twinlog.errors import TerminalError, UsageError
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.formats.ledger.gate import Waiver
    from twinlog.gate.answer import WaivedBy

app = typer.Typer(
    name="waiver",
    help="Allow a failover although a check of the gate fails.",
    no_args_is_help=True,
)

LONGEST_MS = 10 * 366 * 86_400_000
"""Beyond ten years the number is a mistake; and after the year 9999 no moment can be shown."""

CheckArgument = Annotated[str, typer.Argument(metavar="CHECK", help="A check's name, such as no-gaps.")]
SubjectOption = Annotated[
    str, typer.Option("--for", metavar="TOPIC", help="Only this topic or group. Default: all of the check.")
]


@app.command("add")
def add(
    check: CheckArgument,
    *,
    reason: Annotated[
        str, typer.Option("--reason", help="Why a failover may begin although this check fails.")
    ],
    by: options.ByOption,
    until: Annotated[
        str, typer.Option("--until", metavar="TIME", help="2026-01-31T12:00:00Z, or a span such as 4h.")
    ],
    subject: SubjectOption = "",
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """Waive a check until a time; a waiver of the same check and subject is replaced."""
    from twinlog.formats.ledger.gate import Waiver
    from twinlog.gate.suites.suites import refuse_unknown
    from twinlog.state.ledger import write_ledger

    now_ms = clock.now_ms()
    until_ms = _until(until, now_ms)
    refuse_unknown([check], "waiver")
    if not reason.strip() or not by.strip():
        raise UsageError("a waiver needs a reason and a name", hint="fill --reason and --by")
    _, chosen = load_flow_or_way_home(config, flow)
    waiver = Waiver(check, subject, reason.strip(), by.strip(), until_ms, now_ms)
    with clusters_with_ledger(chosen) as clusters:
        if subject:
            _refuse_unknown_subject(chosen, clusters, subject)
        write_ledger(chosen, clusters.target, [waiver])
    _show(chosen, [waiver], now_ms, output)
    return 0


@app.command("list")
def list_waivers(
    *,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """List waivers, expired ones too."""
    from twinlog.state.ledger import read_ledger

    _, chosen = load_flow_or_way_home(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        waivers = read_ledger(chosen, clusters.target).waivers
    _show(chosen, waivers, clock.now_ms(), output)
    return 0


@app.command("remove")
def remove(
    check: CheckArgument,
    *,
    subject: SubjectOption = "",
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """Delete a waiver: the check counts again."""
    from twinlog.state.ledger import forget, read_ledger

    _, chosen = load_flow_or_way_home(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        waivers = read_ledger(chosen, clusters.target).waivers
        found = next((it for it in waivers if (it.check, it.subject) == (check, subject)), None)
        if found is None:
            raise TerminalError(
                f"{chosen.name} has no waiver of {check}{f' for {subject}' if subject else ''}",
                hint="see `twinlog waiver list`",
                code="no-waiver",
            )
        forget(chosen, clusters.target, found)
    _show(chosen, [it for it in waivers if it is not found], clock.now_ms(), output)
    return 0


def _until(text: str, now_ms: int) -> int:
    spans = text[-1:] in {"s", "m", "h", "d"}
    until_ms = now_ms + 1000 * options.parse_duration(text, "--until") if spans else _moment(text)
    if until_ms <= now_ms:
        raise UsageError(f"--until: {text} has passed", hint="a waiver needs a time to come")
    if until_ms > now_ms + LONGEST_MS:
        raise UsageError(f"--until: {text} is more than ten years away", hint="a waiver needs an end")
    return until_ms


def _refuse_unknown_subject(flow: FlowSettings, clusters: Clusters, subject: str) -> None:
    """Raise UsageError for a topic or group that neither the ledger nor a cluster knows.

    If the source is gone, only warn: it cannot say what it has.
    """
    from twinlog.errors import ClusterUnreachable
    from twinlog.state.ledger import read_ledger
    from twinlog.topics.snapshot import copied_names

    ledger = read_ledger(flow, clusters.target)
    if subject == flow.name or subject in ledger.incarnations:
        return
    if any(it.group == subject for it in clusters.target.groups()):
        return
    try:
        topics = set(copied_names(flow, clusters.source))
        known = topics | {it.group for it in clusters.source.groups()}
    except ClusterUnreachable:
        warn(f"{flow.source.alias} is out of reach: whether it has a topic or group {subject} is not known")
        return
    if subject not in known:
        raise UsageError(
            f"--for: {flow.name} knows no topic or group {subject}",
            hint="give the name that the gate shows",
            flow=flow.name,
        )


def _moment(text: str) -> int:
    try:
        return options.parse_moment(text)
    except UsageError as error:
        raise UsageError(error.message, hint="write 2026-01-31T12:00:00Z, or a span such as 4h") from None


def _show(flow: FlowSettings, waivers: Iterable[Waiver], now_ms: int, output: options.Output) -> None:
    from twinlog.gate.answer import waived_by

    shown = [waived_by(it, now_ms) for it in waivers]
    show({"flow": flow.name, "waivers": to_json(shown)}, output, [grid(flow.name, shown, "none")])


def grid(flow: str, waivers: Iterable[WaivedBy], empty: str = "") -> Grid:
    """Show waivers as a table."""
    from twinlog.gate.record import moment

    return Grid.of(
        f"{flow}: waivers",
        "check | for: subject_of | reason | by | until | counts",
        waivers,
        empty,
        subject_of=lambda it: it.subject or "all of it",
        until=lambda it: moment(it.until_ms),
        counts=lambda it: not it.expired,
    )

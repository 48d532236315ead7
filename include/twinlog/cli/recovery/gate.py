"""`twinlog gate` and `evidence verify`: may we fail over?  Ready or not, with every number, as evidence to verify."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from twinlog.cli.flows import load_one_flow
from twinlog.cli.options import ConfigOption, OneFlowOption, option
from twinlog.cli.recovery.accept import grid as accepted_grid
from twinlog.cli.render import Grid, refuse_unwritable, say, show, written
from twinlog.errors import ExitCode, FormatError, UsageError
from twinlog.grouped import grouped
from twinlog.jsonable import Json, to_json
from twinlog.judge.check import NOT_APPLICABLE, Mode
from twinlog.visible import listed

if TYPE_CHECKING:
    from twinlog.gate.answer import GateCheck, GateResult
    from twinlog.gate.record import Kept
    from twinlog.observe.observed_copy import ObservedCopy, ObservedTopic

ModeOption = Annotated[
    Mode, option("--mode", "planned: the source is alive; source-dead: from the target alone.")
]
SignOption = Annotated[
    Path | None, option("--sign-with KEY.PEM", "Private Ed25519 key that signs the evidence.")
]


def gate(
    *,
    config: ConfigOption,
    flow: OneFlowOption = None,
    mode: ModeOption = Mode.PLANNED,
    still_writing: Annotated[
        bool,
        option(
            "--still-writing", "Producers have not been stopped: only whether a planned failover could begin."
        ),
    ] = False,
    canary: Annotated[
        bool, option("--canary", "Write a heartbeat to the source and wait for its copy.")
    ] = False,
    sign_with: SignOption = None,
    evidence: Annotated[Path | None, option("--evidence FILE", "Write the evidence here, too.")] = None,
    report: Annotated[Path | None, option("--report FILE", "Write the page here, too (HTML).")] = None,
    everything: Annotated[
        bool, option("--all", "Show the checks that hold, too; by default only their number.")
    ] = False,
) -> int:
    """Say whether a failover may begin, and why not.

    Example: `twinlog gate --mode planned --still-writing`. Next: `twinlog failover --dry-run`.
    """
    if mode is Mode.SOURCE_DEAD and (canary or still_writing):
        raise UsageError(
            "--canary and --still-writing ask something of the source", "leave them out, or --mode planned"
        )
    from twinlog.cluster.api import open_clusters
    from twinlog.gate import ask as step
    from twinlog.gate.accepting import ways
    from twinlog.gate.evidence import Seal
    from twinlog.gate.record import keep

    configuration, chosen = load_one_flow(config, flow)
    seal = Seal.of(configuration, chosen, sign_with)
    refuse_unwritable(evidence, "--evidence")
    refuse_unwritable(report, "--report")
    say(f"{chosen.name}: asking {'both clusters' if mode is Mode.PLANNED else chosen.target.alias}")
    with open_clusters(chosen) as clusters:
        answer = step.run(chosen, clusters, step.GateRequest(mode, still_writing, canary))
        kept = keep(chosen, clusters.target, answer, seal)
    show(document(answer.result, kept), _grids(answer.result, everything=everything))
    for way in ways(chosen.name, answer.result.amounts, kept.seen):
        say(f"{chosen.name}: to accept it: {way}")
    say(f"{chosen.name}: page {kept.page}")
    say(f"{chosen.name}: evidence {kept.evidence}{'' if seal.key else ' (not signed)'}")
    for copy, kept_as in ((evidence, kept.evidence), (report, kept.page)):
        if copy is not None and not written(copy, Path(kept_as).read_bytes()):
            return ExitCode.USAGE
    return ExitCode.of(answer.result.ready)


def document(result: GateResult, kept: Kept) -> Json:
    """Return the JSON document that other programs rely on, with the places of page and evidence."""
    return {
        **to_json(result),
        "headline": result.headline,
        "accept": to_json(result.amounts),
        **to_json(kept),
    }


def _grids(result: GateResult, *, everything: bool) -> Iterator[Grid]:
    hold = sum(check.passed and check.applies for check in result.checks)
    alike = grouped(
        ((_mark(check), check.message), check) for check in result.checks if everything or not check.passed
    )
    yield Grid.of(
        f"{result.flow}, failover ({result.mode.value}): {result.headline}; {hold} checks hold",
        "answer: mark | check: told",
        sorted(alike.values(), key=lambda of: (not of[0].blocks, of[0].passed)),
        "each check holds: --all shows them",
        mark=lambda of: _mark(of[0]),
        told=lambda of: f"{listed([it.name for it in of])}{_as_of(of[0].age_seconds)}: {of[0].message}",
    )
    columns = (
        "topic | tier | records, known: known | of them undecided: undecided | bytes, about: bytes"
        " | oldest (s): seconds | RPO (s): rpo_seconds | note: mark"
    )
    yield Grid.of(
        f"{result.flow}: at risk",
        columns,
        [topic for topic in result.topics if everything or topic.tells],
        "all records are on the target, as far as anybody looked",
        tier=lambda it: it.tier or None,
    )
    yield accepted_grid(result.flow, result.waivers)
    if result.observed is not None:
        yield from _observed(result.flow, result.observed, everything=everything)


def _observed(flow: str, seen: ObservedCopy, *, everything: bool) -> Iterator[Grid]:
    from twinlog.judge.observed import WHAT_TO_DO

    kinds = " | ".join(WHAT_TO_DO)
    columns = (
        f"topic | equal when read: equal | {kinds} | passed over: passed_over | not exact yet: open_records"
    )
    yield Grid.of(
        f"{flow}: copied by {seen.copied_by}, and observed",
        columns,
        [topic for topic in seen.topics if everything or not topic.equal_alone],
        "all copies that were seen are equal: --all shows them"
        if seen.topics
        else "nothing was observed yet",
        **{kind: partial(_count, kind) for kind in WHAT_TO_DO},
    )
    columns = (
        "group | topic | partition | on the source: upstream_offset | by the map: ours | exact"
        " | read again: again_by_map | by the engine: theirs | from: by | read again: again | skipped"
    )
    yield Grid.of(f"{flow}: where groups would go on", columns, seen.groups)


def _count(kind: str, it: ObservedTopic) -> int | None:
    return it.counts.get(kind, 0)


def _as_of(age_seconds: float | None) -> str:
    """Say how old the facts of a check are, if they are not of now."""
    return f" (as of {age_seconds:,.0f} s ago)" if age_seconds is not None and age_seconds >= 1 else ""


def _mark(check: GateCheck) -> str:
    if check.passed:
        return "ok" if check.applies else NOT_APPLICABLE
    if check.waived:
        return "accepted"
    return "NO" if check.blocks else "warning"


def verify(
    file: Annotated[Path, Argument(metavar="FILE", help="The evidence, JSON.")],
    *,
    key: Annotated[Path, option("--key PUB.PEM", "Public Ed25519 key.")],
) -> int:
    """Check the signature of evidence; exit 1 if it has none, is signed by another key, or was changed.

    Example: `twinlog evidence verify evidence.json --key public.pem`. Next: `twinlog failover --dry-run`.
    """
    from twinlog.gate.evidence import read_public_key
    from twinlog.gate.evidence import verify as verified

    public = read_public_key(key)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "give the evidence's file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not text", "give the evidence's file") from None
    try:
        found = verified(text, public)
    except FormatError as error:  # not a forgery: the file is something else
        raise UsageError(error.message, error.hint or "give the file that `twinlog gate` wrote") from None
    rows = [(name.replace("_", " "), value) for name, value in to_json(found).items()]
    show({"verified": True, **to_json(found)}, [Grid(f"{file.name}: verified", ("what", "value"), rows)])
    return 0

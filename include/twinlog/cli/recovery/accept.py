"""`twinlog accept`: who answers for going on although a check fails: for what of it, up to which number, until when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from twinlog import clock
from twinlog.cli import options
from twinlog.cli.flows import clusters_with_ledger, load_flow_or_way_home
from twinlog.cli.options import option
from twinlog.cli.render import Grid, person, show, warn
from twinlog.errors import TerminalError, UsageError
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.formats.ledger.accepted import Accepted
    from twinlog.gate.answer import WaivedBy
    from twinlog.state.ledger import Ledger

LONGEST_MS = 10 * 366 * 86_400_000
"""Beyond ten years the number is a mistake; and after the year 9999 no moment can be shown."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The words of the command line; `check` is "" if a look is accepted as a whole."""

    check: str
    subject: str
    partitions: str
    offset: int | None
    up_to: int | None
    not_known: int
    seen: str
    reason: str
    until_ms: int | None


def accept(
    check: Annotated[
        str, Argument(metavar="[CHECK]", help="A check's name, such as no-gaps. Default: list all.")
    ] = "",
    *,
    subject: Annotated[
        str, option("--for NAME", "Only this topic or group. Default: all of the check.")
    ] = "",
    partitions: Annotated[str, option("--partitions 0-5", "Only these partitions of it.")] = "",
    offset: Annotated[
        int | None, option("--offset", "The lost range of one partition that begins there: no-gaps alone.")
    ] = None,
    up_to: Annotated[
        int | None, option("--up-to N", "How far it may fail. Default: as far as the last look showed.")
    ] = None,
    not_known: Annotated[int, option("--not-known N", "How many rows may be unknown.")] = 0,
    seen: Annotated[str, option("--seen ID", "Accept all that this look, or dry run, showed.")] = "",
    reason: options.ReasonOption = "",
    until: Annotated[
        str,
        option(
            "--until TIME", "2026-01-31T12:00:00Z, or a span such as 4h. Default: 8h; a lost range, for ever."
        ),
    ] = "",
    withdraw: Annotated[
        bool, option("--withdraw", "Take it back: the check, or the lost range, counts again.")
    ] = False,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
) -> int:
    """Accept that a check fails, up to what it showed, or list what is accepted, by whom and until when.

    Example: `twinlog accept no-gaps --for orders --reason 'nobody reads it' --until 7d`. Next: `twinlog gate`.
    """
    from twinlog.gate import accepting
    from twinlog.state.ledger import read_ledger

    now_ms = clock.now_ms()
    until_ms = None if offset is not None and not until else _until(until or "8h", now_ms)
    asked = _Asked(check, subject, partitions, offset, up_to, not_known, seen, reason.strip(), until_ms)
    _refuse_mistakes(asked, withdraw=withdraw)
    _, chosen = load_flow_or_way_home(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        ledger = read_ledger(chosen, clusters.target)
        if withdraw:
            accepting.withdraw(chosen, clusters.target, _given(chosen, ledger, asked))
        elif check or seen:
            given = _lost_ranges(chosen, clusters, ledger, asked) if offset is not None else None
            if given is None and subject:
                _refuse_unknown_subject(chosen, clusters, ledger, subject)
            wanted = tuple(given or _wanted(chosen, clusters, ledger, asked))
            accepting.accept(chosen, clusters.target, wanted)
        ledger = read_ledger(chosen, clusters.target)
    _show(chosen, ledger, now_ms)
    return 0


def _refuse_mistakes(asked: _Asked, *, withdraw: bool) -> None:
    from twinlog.formats.ledger.accepted import NO_GAPS
    from twinlog.judge.table import refuse_unknown

    if asked.check:
        refuse_unknown([asked.check], "accept")
    if (asked.check or asked.seen) and not withdraw and not asked.reason:
        raise UsageError("to accept something takes a reason", "fill --reason")
    if (asked.check and asked.seen) or (withdraw and not asked.check):
        raise UsageError("say one check, or --seen for all of a look", "see `twinlog accept --help`")
    if asked.partitions and not re.fullmatch(r"\d{1,9}(-\d{1,9})?", asked.partitions):
        raise UsageError(f"--partitions: {asked.partitions!r} are none", "write 3 or 0-5")
    if min(asked.up_to or 0, asked.not_known) < 0:
        raise UsageError("--up-to, --not-known: a number may not be below 0", "write the gate's")
    lone_range = asked.check == NO_GAPS and asked.subject and asked.partitions.isdecimal()
    if asked.offset is not None and not lone_range:
        raise UsageError(
            "--offset is about the lost range of one partition",
            "twinlog accept no-gaps --for TOPIC --partitions 3 --offset 120; see `twinlog topics gaps`",
        )


def _wanted(flow: FlowSettings, clusters: Clusters, ledger: Ledger, asked: _Asked) -> Iterator[Accepted]:
    """Yield what is accepted: all of a look, or one check by the numbers given, else by those of the last look."""
    from twinlog.formats.ledger.accepted import Accepted
    from twinlog.gate.accepting import all_of, shown_as

    who, now_ms = person(), clock.now_ms()
    assert asked.until_ms is not None  # only a lost range has no end
    if asked.seen:
        shown = shown_as(flow, clusters.target, asked.seen)
        yield from all_of(shown, who, asked.reason, asked.until_ms, now_ms)
        return
    up_to, not_known = asked.up_to, asked.not_known
    if up_to is None and not not_known:
        looks = [
            [
                amount
                for amount in look.amounts
                if amount.check == asked.check and asked.subject in {"", amount.subject}
            ]
            for look in ledger.shown
        ]
        last = next((look for look in reversed(looks) if look), None)
        if last is None or asked.partitions:
            raise UsageError(
                f"no look has shown by how much {asked.check} fails",
                "say it: --up-to; or look: `twinlog gate`",
            )
        up_to, not_known = sum(amount.short for amount in last), sum(it.unknown for it in last)
    given = asked.check, asked.subject, asked.reason, who.by, who.known_by, now_ms, asked.until_ms
    yield Accepted(*given, up_to or 0, not_known, asked.partitions)


def _lost_ranges(
    flow: FlowSettings, clusters: Clusters, ledger: Ledger, asked: _Asked
) -> tuple[Accepted, ...]:
    """Accept the lost range that begins at an offset, as long as it is now, in every incarnation of its topic."""
    from twinlog.facts.gaps import read_gaps
    from twinlog.formats.ledger.accepted import NO_GAPS, Accepted

    who, now_ms = person(), clock.now_ms()
    wanted = asked.subject, int(asked.partitions), asked.offset
    found = [
        gap
        for gap in read_gaps(flow, clusters.target, ledger, now_ms, clusters.source)
        if (gap.topic, gap.partition, gap.first_offset) == wanted
    ]
    if not found:
        raise TerminalError(
            f"{flow.name} has no gap of {asked.subject}-{asked.partitions} that begins at offset {asked.offset}",
            "see `twinlog topics gaps`",
            code="no-gap",
        )
    given = NO_GAPS, asked.subject, asked.reason, who.by, who.known_by, now_ms, asked.until_ms
    return tuple(
        Accepted(*given, gap.last_offset, 0, asked.partitions, gap.topic_id, gap.first_offset)
        for gap in found
    )


def _given(flow: FlowSettings, ledger: Ledger, asked: _Asked) -> Accepted:
    """Return what is to be taken back.  Raises TerminalError `not-accepted`."""
    place = asked.check, asked.subject, asked.partitions, asked.offset
    for accepted in ledger.accepted:
        if (accepted.check, accepted.subject, accepted.partitions, accepted.first_offset) == place:
            return accepted
    of = f" for {asked.subject}" if asked.subject else ""
    raise TerminalError(
        f"{flow.name}: nobody has accepted {asked.check}{of}", "see `twinlog accept`", code="not-accepted"
    )


def _until(text: str, now_ms: int) -> int:
    spans = text[-1:] in {"s", "m", "h", "d"}
    until_ms = now_ms + 1000 * options.parse_duration(text, "--until") if spans else _moment(text)
    if until_ms <= now_ms:
        raise UsageError(f"--until: {text} has passed", "give a time to come")
    if until_ms > now_ms + LONGEST_MS:
        raise UsageError(f"--until: {text} is more than ten years away", "give an end")
    return until_ms


def _refuse_unknown_subject(flow: FlowSettings, clusters: Clusters, ledger: Ledger, subject: str) -> None:
    """Raise UsageError for a topic or group that neither the ledger nor a cluster knows.

    If the source is gone, only warn: it cannot say what it has.
    """
    from twinlog.errors import ClusterUnreachable
    from twinlog.topics.snapshot import copied_names

    if subject == flow.name or subject in ledger.incarnations:
        return
    if any(group.group == subject for group in clusters.target.groups()):
        return
    try:
        topics = set(copied_names(flow, clusters.source))
        known = topics | {group.group for group in clusters.source.groups()}
    except ClusterUnreachable:
        warn(f"{flow.source.alias} is out of reach: whether it has a topic or group {subject} is not known")
        return
    if subject not in known:
        raise UsageError(
            f"--for: {flow.name} knows no topic or group {subject}",
            "give the name that the gate shows",
            flow=flow.name,
        )


def _moment(text: str) -> int:
    try:
        return options.parse_moment(text)
    except UsageError as error:
        raise UsageError(error.message, "write 2026-01-31T12:00:00Z, or a span such as 4h") from None


def _show(flow: FlowSettings, ledger: Ledger, now_ms: int) -> None:
    from twinlog.gate.answer import waived_by

    shown = [waived_by(accepted, now_ms) for accepted in ledger.accepted]
    show({"flow": flow.name, "accepted": to_json(shown)}, [grid(flow.name, shown, "none")])


def grid(flow: str, accepted: Iterable[WaivedBy], empty: str = "") -> Grid:
    """Show what was accepted as a table."""
    from twinlog.gate.record import moment

    return Grid.of(
        f"{flow}: accepted",
        "check | for: subject_of | partitions | from offset: from_of | up to: up_to_of | not known: not_known_of"
        " | reason | by | until | counts",
        accepted,
        empty,
        subject_of=lambda it: it.subject or "all of it",
        from_of=lambda it: "" if it.first_offset is None else it.first_offset,
        up_to_of=lambda it: "any" if it.up_to is None else f"{it.up_to:,}",
        not_known_of=lambda it: "any" if it.not_known is None else it.not_known or "",
        by=lambda it: f"{it.by} ({it.known_by})",
        until=lambda it: "for ever" if it.until_ms is None else moment(it.until_ms),
        counts=lambda it: not it.expired,
    )

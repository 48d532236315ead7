"""Take a person's yes: show the command that gives it, and write it into the ledger.

What a look showed is kept for a day under a name, so that all of it can be accepted at once, and nothing else.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.accepted import SHOWN_FOR_MS, Accepted, Amount, Shown, every_form
from twinlog.jsonable import to_json
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, read_ledger, write_ledger

NAMED = 20
"""So many commands are shown at most; one more accepts everything."""


NO_QUESTION = frozenset({"flow-has-run", "flow-in-service"})
"""Checks that nobody is shown how to accept: there is nothing to fail over yet, or it was failed over already."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who says yes: a name, and how it is known, such as "login on host x, not authenticated"."""

    by: str
    known_by: str


def command(flow: str, it: Amount) -> str:
    """Return the command that accepts what stands against a subject, and no more of it.  Pure."""
    words = ["twinlog", "accept", it.check, "--flow", flow]
    words += ["--for", it.subject] if it.subject else []
    words += ["--up-to", str(it.short)] if it.short else []
    words += ["--not-known", str(it.unknown)] if it.unknown else []
    return f"{shlex.join(words)} --until 8h --reason ..."


def ways(flow: str, found: Sequence[Amount], seen: str) -> Iterator[str]:
    """Yield the commands that accept what stands against a failover: the first one by one, and all of a look.  Pure."""
    if {it.check for it in found} & NO_QUESTION:
        return
    for amount in found[:NAMED]:
        yield command(flow, amount)
    if seen:
        every = f"twinlog accept --seen {shlex.quote(seen)} --flow {shlex.quote(flow)}"
        yield f"all that it showed: {every} --until 8h --reason ..."


def to_accept(flow: str, found: Sequence[Amount], seen: str) -> str:
    """Return, as a clause, the command that accepts what stands against a failover; "" if nothing does.  Pure."""
    every = list(ways(flow, found, seen))
    return f"; to accept it: {every[-1] if seen else '; '.join(every[:3])}" if every else ""


def keep_shown(
    flow: FlowSettings,
    target: Cluster,
    mode: str,
    amounts: Iterable[Amount],
    lost: int | None = None,
    last_ended: str = "",
) -> str:
    """Keep for a day what was shown; return the name under which it can be accepted, a digest of it."""
    now_ms, found = clock.now_ms(), tuple(amounts)
    text = f"{flow.name} {mode} {now_ms} {lost} {to_json(found)}"
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    over = [shown for shown in read_ledger(flow, target).shown if shown.at_ms < now_ms - SHOWN_FOR_MS]
    write_ledger(flow, target, [Shown(name, mode, now_ms, found, lost, last_ended)], over)
    return name


def shown_as(flow: FlowSettings, target: Cluster, seen: str, mode: str = "") -> Shown:
    """Return what a look of the last day showed, of this mode if one is given.  Raises TerminalError `not-seen`."""
    known = read_ledger(flow, target).shown
    found = next((shown for shown in known if shown.seen == seen and mode in {"", shown.mode}), None)
    if found is None or found.at_ms < clock.now_ms() - SHOWN_FOR_MS:
        raise TerminalError(
            f"{flow.name}: no look of the last day{f', {mode},' if mode else ''} is called {seen}",
            "look again (`twinlog gate`, `twinlog failover --dry-run`), and accept that",
            code="not-seen",
        )
    return found


def require_approver(flow: FlowSettings, by: str) -> None:
    """Raise TerminalError `no-approver` if `twinlog.approvers` names others alone."""
    if flow.failover.approvers and by not in flow.failover.approvers:
        raise TerminalError(
            f"{flow.name}: {by} may not say yes, by twinlog.approvers",
            f"one of these has to: {', '.join(flow.failover.approvers)}",
            code="no-approver",
            flow=flow.name,
        )


def all_of(shown: Shown, person: Person, reason: str, until_ms: int, now_ms: int) -> tuple[Accepted, ...]:
    """Accept all that a look showed, each by its name and number.  Pure."""
    return tuple(
        Accepted(
            amount.check,
            amount.subject,
            reason,
            person.by,
            person.known_by,
            now_ms,
            until_ms,
            amount.short,
            amount.unknown,
        )
        for amount in shown.amounts
    )


def accept(flow: FlowSettings, target: Cluster, accepted: Iterable[Accepted]) -> None:
    """Write a person's yes; it replaces what was accepted of the same before, also by an older release.

    Raises TerminalError `no-approver`, before anything is written.
    """
    given = tuple(accepted)
    for it in given:
        require_approver(flow, it.by)

    def decide(ledger: Ledger) -> Entries:
        before = {it.key() for it in ledger.accepted}
        return Entries(given, [older for it in given if it.key() in before for older in every_form(it)[1:]])

    change(flow, target, decide)


def withdraw(flow: FlowSettings, target: Cluster, accepted: Accepted) -> None:
    """Take a yes back."""
    change(flow, target, lambda _: Entries(forgotten=every_form(accepted)))

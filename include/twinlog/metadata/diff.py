"""Show a metadata plan or result to people: added lines green, removed red, kept yellow.  Pure.

Names and values come from clusters, where principals and configs may hold any characters: who writes a line makes it
visible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from twinlog.metadata.sync import MetadataResult
from twinlog.metadata.values import LeftOutAcl, MetadataChange, MetadataPlan

StyledLine = tuple[str, str]
"""A rich style (`green`) and its text; the text's first sign says the same as the colour."""

COMES, GOES, CHANGES, STAYS = "green", "red", "cyan", "yellow"
REFUSED, QUIET, HEADING = "bold red", "dim", "bold"


def plan_lines(plan: MetadataPlan) -> Iterator[StyledLine]:
    """Yield what would be changed."""
    yield HEADING, f"{plan.flow}, profile {plan.profile.value}: {_count(len(plan.changes), 'change')}"
    yield from _change_lines(plan.changes)
    yield from _rest_lines(plan, plan.left_out)


def result_lines(result: MetadataResult) -> Iterator[StyledLine]:
    """Yield what was changed."""
    made = _count(len(result.applied), "change")
    yield HEADING, f"{result.flow}, profile {result.profile.value}: {made} made"
    yield from _change_lines(result.applied)
    yield from _rest_lines(result)


def _change_lines(changes: Iterable[MetadataChange]) -> Iterator[StyledLine]:
    """Yield changes under their resource, resources in the order in which they first appear."""
    rows = [change.row for change in changes]
    first = {row.resource: index for index, row in reversed(list(enumerate(rows)))}
    in_groups = sorted(rows, key=lambda row: first[row.resource])
    for resource, group in groupby(in_groups, lambda row: row.resource):
        yield HEADING, resource
        for row in group:
            if row.before is None:
                yield COMES, f"  + {row.name}: {row.after}"
            elif row.after is None:
                yield GOES, f"  - {row.name}: {row.before}"
            else:
                yield CHANGES, f"  ~ {row.name}: {row.before} -> {row.after}"


def _rest_lines(
    found: MetadataPlan | MetadataResult, left_out: Iterable[LeftOutAcl] = ()
) -> Iterator[StyledLine]:
    """Yield what is not changed: differences that stay, refusals, how many ACLs of the source stay there, notes."""
    if found.drift:
        yield HEADING, "differences that are left as they are"
    for drift in found.drift:
        sides = f"is {drift.target or 'unset'}, source {drift.source or 'unset'}"
        yield STAYS, f"  ! {drift.resource}: {drift.name} {sides}; {drift.message}"
    if found.refused:
        yield HEADING, "refused"
    for refusal in found.refused:
        hint = f"; {refusal.hint}" if refusal.hint else ""
        yield REFUSED, f"  x {refusal.name}: {refusal.message}{hint}"
    for reason, count in sorted(Counter(acl.reason for acl in left_out).items()):
        yield QUIET, f"{_count(count, 'ACL')} of the source left out: {reason}"
    yield from ((QUIET, f"note: {note}") for note in found.notes)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

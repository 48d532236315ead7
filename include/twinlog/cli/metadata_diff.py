"""A metadata plan or result as lines for people: what comes in green, what goes in red, what stays in yellow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from twinlog.cli.render import Diff, StyledLine

if TYPE_CHECKING:
    from twinlog.steps.metadata_plan import Drift, LeftOutAcl, MetadataChange, MetadataPlan
    from twinlog.steps.sync_metadata import MetadataResult
    from twinlog.steps.topic_plan import Refusal

COMES, GOES, CHANGES, STAYS, REFUSED, QUIET = "green", "red", "cyan", "yellow", "bold red", "dim"


def plan_diff(plan: MetadataPlan) -> Diff:
    """Show what would be changed."""
    title = f"{plan.flow}, profile {plan.profile.value}: {_count(len(plan.changes), 'change')}"
    return Diff(
        title,
        [
            *change_lines(plan.changes),
            *drift_lines(plan.drift),
            *refusal_lines(plan.refused),
            *left_out_lines(plan.left_out),
            *((QUIET, f"note: {note}") for note in plan.notes),
        ],
    )


def result_diff(result: MetadataResult) -> Diff:
    """Show what was changed."""
    title = f"{result.flow}, profile {result.profile.value}: {_count(len(result.applied), 'change')} made"
    return Diff(
        title,
        [
            *change_lines(result.applied),
            *drift_lines(result.drift),
            *refusal_lines(result.refused),
            *((QUIET, f"note: {note}") for note in result.notes),
        ],
    )


def change_lines(changes: Iterable[MetadataChange]) -> Iterator[StyledLine]:
    """Yield changes under the resource they are about, in its first place in the plan."""
    rows = [change.row for change in changes]
    first = {row.resource: index for index, row in reversed(list(enumerate(rows)))}
    for resource, group in groupby(
        sorted(rows, key=lambda row: first[row.resource]), lambda row: row.resource
    ):
        yield "bold", resource
        for row in group:
            if row.before is None:
                yield COMES, f"  + {row.name}: {row.after}"
            elif row.after is None:
                yield GOES, f"  - {row.name}: {row.before}"
            else:
                yield CHANGES, f"  ~ {row.name}: {row.before} -> {row.after}"


def drift_lines(drift: Iterable[Drift]) -> Iterator[StyledLine]:
    """Yield differences that stay."""
    for index, it in enumerate(drift):
        if not index:
            yield "bold", "differences that are left as they are"
        yield (
            STAYS,
            f"  ! {it.resource}: {it.name} is {it.target or 'unset'}, source {it.source or 'unset'}; {it.message}",
        )


def refusal_lines(refused: Iterable[Refusal]) -> Iterator[StyledLine]:
    """Yield what cannot be done, and what to do about it."""
    for index, it in enumerate(refused):
        if not index:
            yield "bold", "refused"
        hint = f"; {it.hint}" if it.hint else ""
        yield REFUSED, f"  x {it.name}: {it.message}{hint}"


def left_out_lines(left_out: Iterable[LeftOutAcl]) -> Iterator[StyledLine]:
    """Yield how many ACLs of the source stay there, by reason."""
    for reason, count in sorted(Counter(it.reason for it in left_out).items()):
        yield QUIET, f"{_count(count, 'ACL')} of the source left out: {reason}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

"""`twinlog topics gaps`: what will never be copied; `twinlog accept no-gaps` says that one can do without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinlog import clock
from twinlog.cli import options
from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.render import Grid, show
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twinlog.facts.gaps import GapReport


def gaps(
    *, config: options.ConfigOption, flow: options.OneFlowOption = None, topics: options.TopicsOption = None
) -> int:
    """List records that will never be copied: deleted by the source, or left out; expired and accepted gaps too.

    Example: `twinlog topics gaps --flow 'A->B'`. Next: `twinlog accept`.
    """
    from twinlog.facts.gaps import read_gaps
    from twinlog.state.ledger import read_ledger

    _, chosen = load_one_flow(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        ledger = read_ledger(chosen, clusters.target)
        every = read_gaps(chosen, clusters.target, ledger, clock.now_ms(), clusters.source)
    found = options.of_topics(every, options.parse_topics(topics))
    none = "none of the topics asked for" if topics else "none"
    show({"flow": chosen.name, "gaps": to_json(found)}, [grid(chosen.name, found, none)])
    return 0


def grid(flow: str, gaps: Sequence[GapReport], empty: str = "") -> Grid:
    """Show gaps as a table."""
    columns = (
        "topic | partition | from offset: first_offset | to offset: last_offset | at most: records"
        " | from: since | to: until | cause | copied on: copied_past | state | expires"
        " | by: acknowledged_by | reason: acknowledged_reason"
    )
    return Grid.of(
        f"{flow}: gaps, never to be copied", columns, gaps, empty, expires=lambda it: it.expires or "never"
    )

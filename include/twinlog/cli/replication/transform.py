"""`twinlog transform`: what a flow's transforms make of a topic's newest records; nothing is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli import options
from twinlog.cli.flows import load_one_flow
from twinlog.cli.render import Cell, Grid, show
from twinlog.cli.say import say, warn
from twinlog.errors import ExitCode

if TYPE_CHECKING:
    from twinlog.audit.comparison.values import Excerpt
    from twinlog.audit.preview import Preview, PreviewedRecord

SampleOption = Annotated[
    int,
    typer.Option(
        "--sample", metavar="N", min=1, max=10_000, help="How many of the newest offsets of each partition."
    ),
]


def transform(
    *,
    config: options.ConfigOption,
    topic: options.SourceTopicOption,
    sample: SampleOption = 20,
    flow: options.OneFlowOption = None,
    strict: options.StrictOption = False,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """Show the newest records of a topic before and after the flow's transforms; nothing is changed.

    Only the source is read.  The records are shown as they are, masked fields included: take care where the output
    goes.  Exit code 1: a record cannot be transformed or read, so the copy would stop in front of it.
    """
    from twinlog.audit import preview
    from twinlog.cluster.kafka import KafkaCluster

    _, one = load_one_flow(config, flow, strict=strict)
    seen = preview.run(one, KafkaCluster(one.source), topic, sample)
    if not seen.chain:
        say(f"{one.name}: no transform concerns {topic}")
    elif not seen.records:
        say(f"{one.name}: there is no record in the newest {sample} offsets of {topic}")
    for line in seen.unread:
        warn(line)
    show(seen, output, [_grid(seen)])
    return int(ExitCode.DONE if seen.good else ExitCode.SAYS_NO)


def _grid(seen: Preview) -> Grid:
    counts = Counter(it.fate.value for it in seen.records)
    told = ", ".join(f"{count} {fate}" for fate, count in sorted(counts.items()))
    return Grid(
        f"{seen.flow}: {seen.topic} to {seen.remote_topic}: {told or 'no records'}",
        ("partition", "offset", "", "field", "before", "after"),
        [row for it in seen.records for row in _rows(it)],
        empty="none",
    )


def _rows(it: PreviewedRecord) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for each field that changes, else one for the record."""
    at = it.partition, it.offset, it.fate.value
    if it.after is None:
        yield (*at, "", it.before.value, it.error or None)
        return
    before, after = _fields(it.before), _fields(it.after)
    changed = [name for name in before if before[name] != after[name]] or ["value"]
    for name in changed:
        yield (*at, name, before[name], after[name])


def _fields(it: Excerpt) -> dict[str, str | None]:
    headers = ", ".join(f"{name}={content}" for name, content in it.headers)
    return {"key": it.key, "value": it.value, "headers": headers}

"""`twinlog forget`: drop what is known of a topic that both clusters have lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli.flows import load_one_flow
from twinlog.cli.options import ConfigOption, OneFlowOption, Output, OutputOption, StrictOption
from twinlog.cli.render import Grid, show
from twinlog.cli.say import confirm
from twinlog.errors import ExitCode

if TYPE_CHECKING:
    from twinlog.lifecycle.forget import ForgetResult

TopicOption = Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The source topic.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask: what is forgotten is not known again.")]


def forget(
    *,
    config: ConfigOption,
    topic: TopicOption,
    flow: OneFlowOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    strict: StrictOption = False,
    output: OutputOption = Output.TABLE,
) -> int:
    """Delete the state of a topic that was deleted on both clusters.

    That is its progress, offset map, incarnations, pauses and gaps. A topic of that name created later is a new one.
    """
    from twinlog.lifecycle import forget as step
    from twinlog.state.own_clusters import open_own_clusters

    _, one = load_one_flow(config, flow, strict=strict)
    with open_own_clusters(one) as clusters:
        done = step.run(one, clusters, topic, dry_run=True)
        if not dry_run:
            if not yes:
                confirm(step.told(done))
            done = step.run(one, clusters, topic)
    show(done, output, _grids(done))
    return int(ExitCode.DONE)


def _grids(done: ForgetResult) -> Iterator[Grid]:
    yield Grid(
        f"{done.flow}: {done.topic} {'would be' if done.dry_run else 'is'} forgotten",
        ("what", "records"),
        [*done.dropped.items()],
    )

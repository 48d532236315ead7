"""`twinlog topics forget`: drop what is known of a topic that both clusters have lost."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from twinlog.cli import options
from twinlog.cli.flows import load_one_flow
from twinlog.cli.render import Grid, confirm, show
from twinlog.errors import ExitCode


def forget(
    *,
    config: options.ConfigOption,
    topic: options.SourceTopicOption,
    flow: options.OneFlowOption = None,
    dry_run: options.DryRunOption = False,
    yes: Annotated[bool, Option("--yes", help="Do not ask: what is forgotten is not known again.")] = False,
) -> int:
    """Delete the state of a topic that was deleted on both clusters.

    That is its progress, offset map, incarnations, pauses and gaps. A topic of that name created later is a new one.

    Example: `twinlog topics forget --topic orders --dry-run`. Next: `twinlog status`.
    """
    from twinlog.lifecycle import forget as step
    from twinlog.state.own_clusters import open_own_clusters

    _, one = load_one_flow(config, flow)
    with open_own_clusters(one) as clusters:
        done = step.run(one, clusters, topic, dry_run=True)
        if not dry_run:
            if not yes:
                confirm(step.told(done))
            done = step.run(one, clusters, topic)
    title = f"{done.flow}: {done.topic} {'would be' if done.dry_run else 'is'} forgotten"
    show(done, [Grid(title, ("what", "records"), [*done.dropped.items()], "none")])
    return ExitCode.DONE

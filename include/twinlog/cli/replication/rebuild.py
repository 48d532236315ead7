"""`twinlog topics rebuild` and `topics forget`: copy one topic again, with the positions of its readers, or drop it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from twinlog.cli import options
from twinlog.cli.flows import load_one_flow
from twinlog.cli.render import Grid, confirm, login, say_step, show, steps_grid, warn
from twinlog.errors import ExitCode

if TYPE_CHECKING:
    from twinlog.lifecycle.rebuild import RebuildResult
    from twinlog.lifecycle.rebuild_plan import RebuildPlan


def rebuild(
    *,
    config: options.ConfigOption,
    topic: options.SourceTopicOption,
    flow: options.OneFlowOption = None,
    reason: options.ReasonOption = "by hand",
    dry_run: options.DryRunOption = False,
    yes: Annotated[bool, options.option("--yes", "Do not ask: the copy is deleted.")] = False,
) -> int:
    """Delete the copy of a topic and copy it anew; groups that read it go on exactly where they stood.

    Example: `twinlog topics rebuild --topic orders --dry-run`. Next: `twinlog audit --topic orders`.
    """
    from twinlog.lifecycle import rebuild as step
    from twinlog.state.own_clusters import open_own_clusters

    _, one = load_one_flow(config, flow)
    with open_own_clusters(one) as clusters:
        todo = step.plan(one, clusters, topic)
        for note in todo.notes:
            warn(note)
        if dry_run:
            show(todo, _plan_grids(todo))
            return ExitCode.of(not (todo.active_groups or todo.other_writers))
        if not yes and todo.phase != "deleting":
            confirm(todo.cost)
        request = f"cli-{uuid.uuid4().hex[:8]}"
        done = step.run(one, clusters, topic, by=login(), reason=reason, request=request, told=say_step)
    show(done, _result_grids(done))
    return ExitCode.DONE


def _plan_grids(todo: RebuildPlan) -> Iterator[Grid]:
    under_way = f"; a rebuild is under way: {todo.phase}" if todo.phase else ""
    yield steps_grid(
        f"{todo.flow}: {todo.remote_topic} would be deleted and copied anew{under_way}", todo.steps
    )
    yield Grid.of(
        "readers of the copy",
        "group | partition | stands at (copy): downstream | stands at (source): upstream | in_the_way",
        todo.groups,
        "none",
        in_the_way=lambda it: it.group in todo.active_groups,
    )


def _result_grids(done: RebuildResult) -> Iterator[Grid]:
    rows = [
        *((group, "stands where it stood") for group in done.restored),
        *((group, "waits for the copy to come that far") for group in done.waiting),
        *((group, "its place was not known: nothing committed") for group in done.unknown),
    ]
    yield Grid(f"{done.flow}: {done.remote_topic}, {done.phase.value}", ("group", "position"), rows, "none")


def forget(
    *,
    config: options.ConfigOption,
    topic: options.SourceTopicOption,
    flow: options.OneFlowOption = None,
    dry_run: options.DryRunOption = False,
    yes: Annotated[
        bool, options.option("--yes", "Do not ask: what is forgotten is not known again.")
    ] = False,
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

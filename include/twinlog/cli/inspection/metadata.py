"""`twinlog metadata plan|apply`: topic configs, ACLs and quotas of one flow."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from twinlog import clock
from twinlog.cli.flows import load_one_flow
from twinlog.cli.options import ConfigOption, OneFlowOption, TopicsOption, option, parse_topics
from twinlog.cli.render import Diff, document, refuse_unwritable, say, show, written
from twinlog.config.flow.metadata import Profile
from twinlog.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.metadata.plan_file import SavedPlan

ProfileOption = Annotated[
    Profile | None,
    option("--profile", "What the target is to be. Default: twinlog.metadata.profile of the flow."),
]


def plan(
    *,
    config: ConfigOption,
    flow: OneFlowOption = None,
    topics: TopicsOption = None,
    profile: ProfileOption = None,
    save: Annotated[
        Path | None, option("--save FILE", "Also write the plan to a file, to be applied later as it is.")
    ] = None,
) -> int:
    """Show what would change on the target; nothing is changed.  Exit code 3: a part could not be planned.

    With --topic only configs of the copies are compared: rights and quotas of a user concern several topics together.

    Example: `twinlog metadata plan --flow 'A->B' --save plan.json`. Next: `twinlog metadata apply --plan plan.json`.
    """
    from twinlog.metadata.diff import plan_lines
    from twinlog.metadata.plan_file import plan_document
    from twinlog.metadata.sync import make_plan
    from twinlog.state.own_clusters import open_own_clusters

    chosen = _flow(config, flow, profile)
    refuse_unwritable(save, "--save")
    with open_own_clusters(chosen) as clusters:
        say(f"{chosen.name}: comparing {chosen.source.alias} and {chosen.target.alias}")
        found = make_plan(chosen, clusters, topics=parse_topics(topics))
        saved = plan_document(
            found, clusters.source.cluster_id(), clusters.target.cluster_id(), clock.now_ms()
        )
    show(found.document, [Diff(plan_lines(found))])
    if save is not None:
        if not written(save, document(saved).encode()):
            return ExitCode.USAGE
        say(f"the plan is in {save}; apply it with twinlog metadata apply --plan {shlex.quote(str(save))}")
    return ExitCode.CLUSTER if found.refused else ExitCode.DONE


def apply(
    *,
    config: ConfigOption,
    flow: OneFlowOption = None,
    topics: TopicsOption = None,
    profile: ProfileOption = None,
    plan: Annotated[
        Path | None, option("--plan FILE", "Apply this saved plan. Default: plan anew, and apply that.")
    ] = None,
) -> int:
    """Change the target: by a saved plan, or by one made now.  Exit code 3: the target refused something.

    With --topic only configs of the copies are changed.

    Example: `twinlog metadata apply --plan plan.json`. Next: `twinlog gate`.
    """
    from twinlog.metadata import apply_plan, sync
    from twinlog.metadata.diff import result_lines
    from twinlog.state.own_clusters import open_own_clusters

    if plan is not None and topics:
        raise UsageError("--topic chooses what is planned, and --plan has it", "leave one of them out")
    saved = None if plan is None else _read(plan, profile)
    chosen = _flow(config, flow or ([saved.flow] if saved else None), profile)
    with open_own_clusters(chosen) as clusters:
        say(f"{chosen.name}: changing {chosen.target.alias}")
        result = (
            apply_plan.run(chosen, clusters, saved)
            if saved
            else sync.run(chosen, clusters, topics=parse_topics(topics))
        )
    show(result.document, [Diff(result_lines(result))])
    return ExitCode.DONE if result.complete else ExitCode.CLUSTER


def _flow(config: Path, names: list[str] | None, profile: Profile | None) -> FlowSettings:
    from twinlog.metadata.apply_plan import with_profile

    _, one = load_one_flow(config, names)
    return one if profile is None else with_profile(one, profile)


def _read(path: Path, profile: Profile | None) -> SavedPlan:
    from twinlog.metadata.plan_file import parse_plan

    try:
        saved = parse_plan(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "check --plan", file=str(path)) from error
    if profile not in {None, saved.profile}:
        raise UsageError(
            f"{path} was made for profile {saved.profile.value}",
            "leave out --profile, or make a new plan",
            file=str(path),
        )
    return saved

"""`twinlog check`: try the clusters of each flow, and every permission the flow needs there; or this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from twinlog import __version__
from twinlog.cli.flows import ask_each, load_flows
from twinlog.cli.machine.doctor import doctor
from twinlog.cli.options import FlowOption, option
from twinlog.cli.render import Grid, Lines, say, show, warn
from twinlog.cli.replication.claim import SecondNames
from twinlog.errors import ClusterRefused, ExitCode, TwinlogError
from twinlog.trial.values import Answer, Tried
from twinlog.visible import listed

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.cluster.permissions.needs import Finding, Names
    from twinlog.config.flow.settings import FlowSettings


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """A cluster that answered."""

    alias: str
    cluster_id: str
    brokers: int


@dataclass(frozen=True, slots=True)
class Permission:
    """An operation the flow must be allowed; `unknown` operations could not be asked about.

    If a `required` one is missing, the copy stops; without another one only the function in `why` is missing.
    """

    cluster: str
    resource: str
    name: str
    operations: tuple[str, ...]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    required: bool
    why: str


@dataclass(frozen=True, slots=True)
class FlowCheck:
    """The findings about one flow; `acls` are the commands that grant what it lacks.

    `optional_acls` grant what only the syncs of configs, ACLs and groups lack, or a failover and a failback.  `notes`
    are for people.  `tried` is what became of a trial.
    """

    flow: str
    passed: bool
    topics: int = 0
    clusters: tuple[ClusterSeen, ...] = ()
    permissions: tuple[Permission, ...] = ()
    acls: tuple[str, ...] = ()
    optional_acls: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tried: tuple[Tried, ...] = ()


def check(
    *,
    config: Annotated[
        Path | None,
        option(
            "--config -c FILE",
            "The mm2.properties file that names clusters and flows. Default: check this machine.",
            envvar="TWINLOG_CONFIG",
        ),
    ] = None,
    flow: FlowOption = None,
    trial: Annotated[
        bool,
        option(
            "--try",
            "Make a scratch topic and group on each cluster, try there what the flow will need, and delete them.",
        ),
    ] = False,
    machine: Annotated[
        bool, option("--machine", "This machine instead: Python, Java, Spark, Airflow, memory, disk.")
    ] = False,
) -> int:
    """Check that the clusters grant every permission the flows need; without a file, check this machine.

    Exit code 1: something that is needed is missing, or does not work; the tables name it.

    Example: `twinlog check --config mm2.properties`, or with `--try` on clusters of a kind that nobody has tried
    (docs/compatibility.md). Next: `twinlog plan`.
    """
    if machine or config is None:
        return doctor()
    flows = load_flows(config, flow)
    names = SecondNames()
    done = ask_each(flows, lambda one: check_flow(one, names, trial=trial))
    checked = [result.found for result in done.results if result.found is not None]
    passed = len(checked) == len(done.results) and all(one.passed for one in checked)
    documents = [result.document(passed=False) for result in done.results]
    show({"passed": passed, "flows": documents}, (grid for one in checked for grid in _grids(one)))
    return done.exit_code or ExitCode.of(passed)


def check_flow(flow: FlowSettings, others: SecondNames, *, trial: bool = False) -> FlowCheck:
    """Ask both clusters; `others` are the flows of the file checked before.  With `trial`, try them, too.

    Raises ClusterUnreachable, ClusterRefused, and TerminalError if the clusters are not those of the flow.
    """
    from twinlog.cluster.api import Cluster, open_clusters
    from twinlog.cluster.permissions.needs import acl_lines, judge, needs, recovery_needs
    from twinlog.lane.fence.fence import transactional_prefix
    from twinlog.topics.discovery_rules import nothing_selected, same_cluster
    from twinlog.trial.run import run

    say(f"{flow.name}: asking {flow.source.alias} and {flow.target.alias}{flow.whose_copy}")
    with open_clusters(flow) as clusters:
        sides = clusters.source, clusters.target
        seen = tuple(ClusterSeen(side.alias, side.cluster_id(), side.broker_count()) for side in sides)
        source_id, target_id = (cluster_seen.cluster_id for cluster_seen in seen)
        if source_id and source_id == target_id:
            raise same_cluster(flow, source_id)
        others.refuse(flow, target_id)
        names, hidden = find_names(flow, clusters)
        whose = (*_whose(flow, clusters, names, source_id, target_id), *_state_writers(flow, clusters))
        wanted = (*needs(flow, names, transactional_prefix(flow.name)), *recovery_needs(flow, names))
        rights = {key: right for side in sides for key, right in side.rights(wanted).items()}
        readable = next((name for name in names.topics if name not in hidden), "")
        tried = run(flow, clusters, readable, say) if trial else ()
    notes = (
        *(
            f"{flow.source.alias} shows no topic {name}, which {flow.name}.topics names: misspelt, or not to be seen"
            for name in hidden
        ),
        *(
            f"{problem.message}; {problem.hint}"
            for problem in ([] if hidden else nothing_selected(flow, names.topics))
        ),
        *whose,
        *_unlisted_groups(flow, names),
    )
    for note in notes:
        warn(f"{flow.name}: {note}")
    by_alias = {flow.source.alias: flow.source, flow.target.alias: flow.target}
    for pair in flow.other_heartbeats:
        if pair.target.alias not in by_alias:
            by_alias[pair.target.alias] = pair.target
            try:
                rights |= Cluster(pair.target).rights(wanted)
            except TwinlogError as error:
                notes += (f"{pair.target.alias} gets no heartbeats of {pair.name}: {error}",)
                warn(f"{flow.name}: {notes[-1]}")
    findings = judge(wanted, rights)
    silent: tuple[str, ...] = ()
    if flow.metadata.schemas.copied:
        from twinlog.schemas import sync

        silent = sync.why_not_usable(flow)
    for note in silent:
        warn(f"{flow.name}: {note}")
    return FlowCheck(
        flow=flow.name,
        passed=not silent
        and not any(finding.missing and finding.need.required for finding in findings)
        and not any(row.forbids for row in tried),
        topics=len(names.topics),
        clusters=seen,
        permissions=tuple(_permission(finding) for finding in findings),
        acls=acl_lines((finding for finding in findings if finding.need.required), by_alias),
        optional_acls=acl_lines((finding for finding in findings if not finding.need.required), by_alias),
        notes=(*notes, *silent),
        tried=tried,
    )


def _state_writers(flow: FlowSettings, clusters: Clusters) -> Iterator[str]:
    """Yield a note if others may write to the flow's state; none if the target does not show its ACLs."""
    from twinlog.cluster.permissions.needs import state_writers

    with suppress(ClusterRefused):
        if who := state_writers(flow, clusters.target.describe_acls()):
            yield (
                f"{listed(who)} may write to the flow's state on {flow.target.alias}, which is worth much of what"
                " twinlog may do there (docs/security.md)"
            )


def find_names(flow: FlowSettings, clusters: Clusters) -> tuple[Names, tuple[str, ...]]:
    """Return the names that the flow needs, and separately the topics it names but cannot see."""
    from twinlog.cluster.permissions.needs import Names
    from twinlog.topics.snapshot import copied_names

    seen = copied_names(flow, clusters.source)
    named = [name for name in flow.topics.include if re.fullmatch(r"[\w-]+(\.[\w-]+)*", name)]
    hidden = tuple(name for name in named if name not in seen and flow.why_left_out(name) is None)
    groups: tuple[str, ...] = ()
    with suppress(ClusterRefused):  # `_unlisted_groups` tells of it, and the flow copies without
        found = (group for group in clusters.source.groups() if group.type.placed)
        groups = tuple(group.group for group in found if flow.follows_group(group.group))
    return Names((*seen, *hidden), groups, frozenset(clusters.target.topic_names())), hidden


def _whose(
    flow: FlowSettings, clusters: Clusters, names: Names, source_id: str, target_id: str
) -> Iterator[str]:
    """Refuse state of another flow; yield notes on ledgers that do not say whose they are.

    A ledger that this user may not read is not judged here: the permissions report it.
    """
    from twinlog.state.ledger import read_ledger, require_own
    from twinlog.topics.reverse_flows import unknown_ledgers

    with suppress(ClusterRefused):
        ledger = read_ledger(flow, clusters.target)
        require_own(flow, ledger, source_id, target_id)
        if any(flow.remote_name(name) == name for name in names.topics):
            yield from unknown_ledgers(flow, clusters)


def _unlisted_groups(flow: FlowSettings, names: Names) -> Iterator[str]:
    """Say that no group was seen: brokers leave out of their lists what a user may not see, and say nothing."""
    if flow.emit_checkpoints and not names.groups:
        yield (
            f"{flow.source.alias} lists no group that {flow.name} would sync (ListGroups): there is none, or this"
            " user may not see it; DESCRIBE on groups shows them"
        )


def _permission(finding: Finding) -> Permission:
    need = finding.need
    return Permission(
        need.cluster,
        need.resource.kind.value,
        need.resource.name,
        need.operations,
        finding.missing,
        finding.unknown,
        need.required,
        need.why,
    )


def _all_there(report: FlowCheck) -> str:
    """Say that nothing is missing, and how many permissions were not told: Kafka before 2.3 does not list them."""
    unknown = sum(1 for permission in report.permissions if permission.unknown)
    count = len(report.permissions)
    if not unknown:
        return f"all {count:,} are there"
    return f"{count - unknown:,} of {count:,} are there; the cluster does not tell of the others, which only syncs need"


def _grids(report: FlowCheck) -> Iterator[Grid | Lines]:
    yield Grid.of(
        f"{report.flow}: clusters ({report.topics:,} topics selected)",
        "alias | cluster_id | brokers",
        report.clusters,
    )
    if lacking := [
        permission
        for permission in report.permissions
        if permission.missing or (permission.unknown and permission.required)
    ]:
        yield Grid.of(
            f"{report.flow}: permissions that are missing or could not be asked about",
            "verdict | cluster | resource | name | missing | not known: unknown | needed to: why",
            lacking,
            verdict=lambda it: "warning" if not it.required or not it.missing else "no",
            missing=lambda it: ", ".join(it.missing) or None,
            unknown=lambda it: ", ".join(it.unknown) or None,
        )
    else:
        yield Lines(f"{report.flow}: permissions: {_all_there(report)}", ())
    optional = "and these, for syncs, failover and failback only"
    for title, lines in (("run these", report.acls), (optional, report.optional_acls)):
        if lines:
            yield Lines(f"{report.flow}: {title}", lines)
    yield Grid.of(
        f"{report.flow}: tried by twinlog {__version__}",
        "cluster | tried | answer | said | without it: without | to do: remedy",
        report.tried,
        without=lambda it: it.without.value if it.answer in {Answer.REFUSED, Answer.FAILED} else "",
    )

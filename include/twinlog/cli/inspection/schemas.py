"""`twinlog metadata schemas`: the subjects of a schema registry, brought to the target's registry by its API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinlog.cli.flows import load_one_flow
from twinlog.cli.options import ConfigOption, ExecuteOption, OneFlowOption
from twinlog.cli.render import Grid, say, show
from twinlog.errors import ExitCode, TerminalError

if TYPE_CHECKING:
    from twinlog.cluster.api import ClusterReader
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.schemas.plan import SchemaPlan
    from twinlog.schemas.sync import SchemaSync


def schemas(*, config: ConfigOption, flow: OneFlowOption = None, execute: ExecuteOption = False) -> int:
    """Compare both schema registries in full; with --execute bring the source's subjects over, ids unchanged.

    Exit code 1: something of the target is in the way, or a person has to set it; the other subjects are copied.

    Example: `twinlog metadata schemas --flow 'A->B'`. Next: `twinlog metadata schemas --execute`.
    """
    from twinlog.schemas import sync
    from twinlog.state.own_clusters import open_own_clusters

    _, chosen = load_one_flow(config, flow)
    with open_own_clusters(chosen) as clusters:
        if execute:
            _require_following(chosen, clusters.target)
        does = "changing" if execute else "comparing"
        say(f"{chosen.name}: {does} the schema registries of {chosen.source.alias} and {chosen.target.alias}")
        found = (sync.run if execute else sync.look)(chosen, clusters)
    show(found, grids(found, chosen))
    return ExitCode.of(not (found.conflicts or found.notes))


def _require_following(flow: FlowSettings, target: ClusterReader) -> None:
    """Refuse to make copies READONLY where clients work.  Raises TerminalError `promoted`."""
    from twinlog.state.ledger import read_ledger

    phase = read_ledger(flow, target).phase
    if phase.out_of_service:
        raise TerminalError(
            f"{flow.name} is {phase.value}: clients register, or soon will, on {flow.target.alias}",
            "a failover and the way home copy what is left themselves",
            code="promoted",
            flow=flow.name,
        )


def grids(sync: SchemaSync, flow: FlowSettings) -> Iterator[Grid]:
    """Yield a plan as tables for people."""
    yield Grid(
        f"{sync.flow}: schemas, {sync.versions:,} versions of {sync.subjects:,} subjects on {flow.source.alias}",
        ("subject", "what", "before", "after"),
        list(rows(sync)),
        empty=f"nothing to change on {flow.target.alias}",
    )
    yield Grid(
        f"{sync.flow}: schemas in the way",
        ("subject", "code", "what"),
        [
            *((conflict.subject, conflict.code, conflict.message) for conflict in sync.conflicts),
            *((None, None, note) for note in sync.notes),
        ],
    )
    yield Grid.of(f"{sync.flow}: schemas left alone", "subject | why: reason", sync.left_out)


def rows(plan: SchemaPlan) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield the changes of a plan in their order."""
    for registration in plan.registrations:
        yield registration.subject, f"version {registration.version}", None, f"id {registration.id}"
    for gone in plan.deletions:
        yield gone.subject, f"version {gone.number}", None, "soft-deleted"
    for level in plan.levels:
        yield level.subject, "compatibility", level.before, level.after
    for mode in plan.modes:
        yield mode.subject, "mode", mode.before, mode.after

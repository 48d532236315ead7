"""Bring the subjects of a flow from the source's schema registry to the target's.

`look` reads both and plans; `run` also makes the changes; `promote` lets clients register on a promoted target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import Registries
from twinlog.errors import TerminalError, TwinlogError, UsageError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.policy.selection import NameFilter
from twinlog.schemas.apply import apply, release, to_release
from twinlog.schemas.client import Registry
from twinlog.schemas.plan import ModeChange, SchemaPlan, make_plan, missing_ids
from twinlog.schemas.values import Holdings, Subject, Version
from twinlog.state.ledger import read_ledger
from twinlog.visible import listed

AT_ONCE = 8
"""Questions that one registry is asked at the same time."""

T = TypeVar("T")
K = TypeVar("K")


def read_both(source: Registry, target: Registry, subjects: NameFilter) -> tuple[Holdings, Holdings]:
    """Read the source's selected subjects, and what the target has in their places.

    Raises what a `Registry` raises, and TerminalError `schema-modes` if the target knows no modes.
    """
    names = tuple(subject for subject in source.subjects() if subjects.accepts(subject))
    held = {name: it for name, it in _subjects(source, names).items() if it.versions}
    here = Holdings(held, level=source.level(), mode=source.mode() or "")
    used = {
        one.subject
        for subject in here.subjects.values()
        for version in subject.versions.values()
        for one in version.schema.references
    }
    there = Holdings(
        _subjects(
            target, sorted({*held, *used})
        ),  # one without versions may have a level or a mode of its own
        level=target.level(),
        mode=require_modes(target),
    )
    taken = _each(target.schema, sorted(missing_ids(here, there)))
    ids = {schema_id: schema for schema_id, schema in taken.items() if schema is not None}
    return here, replace(there, ids=ids)


def require_modes(registry: Registry) -> str:
    """Return the registry's own mode.  Raises TerminalError `schema-modes` if it knows none: it keeps no ids then."""
    mode = registry.mode()
    if mode is not None:
        return mode
    raise TerminalError(
        f"{registry.name} knows no modes (GET /mode), so it takes over no ids by this API",
        hint="copy the registry's topic instead, if it has one; docs/schema-registry.md says which registries can",
        code="schema-modes",
    )


def read_subject(registry: Registry, name: str) -> Subject:
    """Read one subject with all its versions, soft-deleted ones too."""
    every, alive = registry.versions(name, deleted=True), set(registry.versions(name, deleted=False))
    versions: dict[int, Version] = {}
    for number in every:
        found = registry.version(name, number)
        if found is not None:  # else it was deleted for good meanwhile
            versions[number] = replace(found, deleted=number not in alive)
    return Subject(name, versions, registry.level(name), registry.mode(name))


def _subjects(registry: Registry, names: Sequence[str]) -> dict[str, Subject]:
    return _each(lambda name: read_subject(registry, name), names)


def _each(ask: Callable[[K], T], keys: Sequence[K]) -> dict[K, T]:
    if not keys:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(keys))) as threads:
        return dict(zip(keys, threads.map(ask, keys), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSync(SchemaPlan):
    """Tell what is to be done, or was done, about the subjects of a flow.

    `subjects` and `versions` count those of the source.  `equal` says that there was nothing to do, and nothing in the
    way.
    """

    flow: str
    subjects: int
    versions: int
    equal: bool


@contextmanager
def opened(registries: Registries) -> Iterator[tuple[Registry, Registry]]:
    """Open both registries, the source's first.  Nothing is asked yet."""
    with Registry(registries.source) as source, Registry(registries.target) as target:
        yield source, target


def look(flow: FlowSettings, clusters: Clusters) -> SchemaSync:
    """Read both registries in full and plan.  Changes nothing.

    Raises what a `Registry` and the ledger of the reverse flow raise, TerminalError `schema-modes`, and UsageError if
    the flow copies no subjects.
    """
    claims = _may_claim(flow, clusters)
    with opened(_registries(flow)) as (source, target):
        return _look(flow, source, target, claims=claims)


def run(flow: FlowSettings, clusters: Clusters) -> SchemaSync:
    """Plan, make the changes, and return the plan that was made; conflicts are in it, and were left alone.

    The ledger of the target says whether it was promoted meanwhile.  Raises what `look`, `apply` and the ledger raise.
    """
    return _run(flow, clusters, claims=_may_claim(flow, clusters))


def _run(flow: FlowSettings, clusters: Clusters, *, claims: bool) -> SchemaSync:
    flow.require_copied("a sync of schemas")

    def released() -> bool:
        phase = read_ledger(flow, clusters.target).phase
        return phase in {FlowPhase.PROMOTED, FlowPhase.FAILING_BACK}

    with opened(_registries(flow)) as (source, target):
        found = _look(flow, source, target, claims=claims)
        apply(found, target, released)
        return found


def _may_claim(flow: FlowSettings, clusters: Clusters) -> bool:
    """Say whether what clients may register to on the target becomes a copy.

    Not while the reverse flow follows and copies subjects, too: each would take the other's originals.
    """
    if not flow.metadata.schemas.both_ways:
        return True
    reverse = replace(flow, source=flow.target, target=flow.source, homes=None)
    return read_ledger(reverse, clusters.source).phase.out_of_service


def why_not_usable(flow: FlowSettings) -> tuple[str, ...]:
    """Ask both registries for their subjects, and the target's for its mode; return what was wrong."""
    found: list[str] = []
    with opened(_registries(flow)) as (source, target):
        for ask in (source.subjects, target.subjects, lambda: require_modes(target)):
            try:
                ask()
            except TwinlogError as error:
                found.append(str(error))
    return tuple(dict.fromkeys(found))


def to_promote(flow: FlowSettings) -> tuple[ModeChange, ...]:
    """Return which subjects of the target clients may not register to.  Asks the target alone; changes nothing."""
    with Registry(_registries(flow).target) as target:
        return to_release(target, flow.metadata.schemas.subjects)


def promote(flow: FlowSettings) -> int:
    """Let clients register on the target, and return how many subjects were given a mode.  May be repeated."""
    with Registry(_registries(flow).target) as target:
        changes = to_release(target, flow.metadata.schemas.subjects)
        release(target, changes)
        return len(changes)


def return_home(flow: FlowSettings, clusters: Clusters) -> SchemaSync:
    """Let clients register on the source again, then copy to the target, where they register no more.

    May be repeated.  Raises what `run` raises.
    """
    with Registry(_registries(flow).source) as source:
        release(source, to_release(source, flow.metadata.schemas.subjects))
    return _run(flow, clusters, claims=True)


def _look(flow: FlowSettings, source: Registry, target: Registry, *, claims: bool) -> SchemaSync:
    here, there = read_both(source, target, flow.metadata.schemas.subjects)
    plan = make_plan(here, there, flow.source.alias, flow.target.alias, claims=claims)
    if not (here.subjects or there.subjects):
        patterns = listed(flow.metadata.schemas.subjects.include)
        nothing = (
            f"no subject of either registry matches twinlog.schemas.subjects ({patterns}): check the patterns"
        )
        plan = replace(plan, notes=(*plan.notes, nothing))
    subjects = here.subjects.values()
    return SchemaSync(
        **{field.name: getattr(plan, field.name) for field in fields(plan)},
        flow=flow.name,
        subjects=len(subjects),
        versions=sum(len(subject.versions) for subject in subjects),
        equal=plan.equal,
    )


def _registries(flow: FlowSettings) -> Registries:
    found = flow.metadata.schemas
    if found.registries is None or not found.copied:
        raise UsageError(
            f"{flow.name} copies no subjects of a schema registry",
            hint=f"set {flow.name}.twinlog.schemas.subjects, and schema.registry.url of both clusters",
            flow=flow.name,
        )
    return found.registries

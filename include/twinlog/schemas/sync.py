"""Bring the subjects of a flow from the source's schema registry to the target's.

`look` reads both and plans; `run` also makes the changes; `promote` lets clients register on a promoted target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.registry import Registries
from twinlog.errors import UsageError
from twinlog.jsonable import to_json
from twinlog.schemas import promotion
from twinlog.schemas.apply import apply, release
from twinlog.schemas.client import HttpRegistry, Registry
from twinlog.schemas.plan import ModeChange, SchemaPlan, make_plan
from twinlog.schemas.read import read_both


@dataclass(frozen=True, slots=True)
class SchemaSync:
    """What is to be done, or was done, about the subjects of a flow; `subjects` counts those of the source."""

    flow: str
    subjects: int
    versions: int
    plan: SchemaPlan = field(default_factory=SchemaPlan)

    @property
    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        plan = self.plan
        return {
            "flow": self.flow,
            "subjects": self.subjects,
            "versions": self.versions,
            "equal": plan.equal,
            "registrations": [
                {
                    "subject": it.subject,
                    "version": it.version.number,
                    "id": it.version.id,
                    "type": it.version.schema.type,
                }
                for it in plan.registrations
            ],
            "deletions": to_json(plan.deletions),
            "levels": to_json(plan.levels),
            "modes": to_json(plan.modes),
            "conflicts": to_json(plan.conflicts),
            "left_out": to_json(plan.left_out),
            "notes": list(plan.notes),
        }


@contextmanager
def opened(registries: Registries) -> Iterator[tuple[Registry, Registry]]:
    """Open both registries, the source's first.  Nothing is asked yet."""
    with HttpRegistry(registries.source) as source, HttpRegistry(registries.target) as target:
        yield source, target


def look(flow: FlowSettings) -> SchemaSync:
    """Read both registries in full and plan.  Changes nothing.

    Raises what a `Registry` raises, TerminalError `schema-modes`, and UsageError if the flow copies no subjects.
    """
    with opened(_registries(flow)) as (source, target):
        return _look(flow, source, target)


def run(flow: FlowSettings, released: Callable[[], bool] = lambda: False) -> SchemaSync:
    """Plan, make the changes, and return the plan that was made; conflicts are in it, and were left alone.

    `released` says whether the target was promoted meanwhile.  Raises what `look` and `apply` raise.
    """
    with opened(_registries(flow)) as (source, target):
        found = _look(flow, source, target)
        apply(found.plan, target, released)
        return found


def to_promote(flow: FlowSettings) -> tuple[ModeChange, ...]:
    """Return which subjects of the target clients may not register to.  Asks the target alone; changes nothing."""
    with HttpRegistry(_registries(flow).target) as target:
        return promotion.to_release(promotion.read_modes(target, flow.metadata.schemas.subjects))


def promote(flow: FlowSettings) -> int:
    """Let clients register on the target, and return how many subjects were given a mode.  May be repeated."""
    with HttpRegistry(_registries(flow).target) as target:
        changes = promotion.to_release(promotion.read_modes(target, flow.metadata.schemas.subjects))
        release(target, changes)
        return len(changes)


def _look(flow: FlowSettings, source: Registry, target: Registry) -> SchemaSync:
    both = read_both(source, target, flow.metadata.schemas.subjects)
    plan = make_plan(both.source, both.target, flow.source.alias, flow.target.alias)
    versions = sum(len(it.versions) for it in both.source.subjects.values())
    return SchemaSync(flow.name, len(both.source.subjects), versions, plan)


def _registries(flow: FlowSettings) -> Registries:
    found = flow.metadata.schemas
    if found.registries is None or not found.copied:
        raise UsageError(
            f"{flow.name} copies no subjects of a schema registry",
            hint=f"set {flow.name}.twinlog.schemas.subjects, and schema.registry.url of both clusters",
            flow=flow.name,
        )
    return found.registries

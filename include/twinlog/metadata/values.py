"""The changes that the metadata sync would make on the target: values, and how each is shown to people.  Pure.

`config_plan`, `acl_plan` and `quota_plan` each make one `Part`; `sync` joins them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeVar

from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.config.flow.metadata import Profile
from twinlog.jsonable import Json, to_json
from twinlog.topics.plan import Refusal

V = TypeVar("V", str, float)


class ChangeKind(StrEnum):
    """The kind of thing that a change is about."""

    TOPIC_CONFIG = "topic-config"
    REPLICATION_FACTOR = "replication-factor"
    ACL = "acl"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class Row:
    """A change for people: `name` of `resource` goes from `before` to `after`; None means "not there"."""

    kind: ChangeKind
    resource: str
    name: str
    before: str | None
    after: str | None

    @property
    def action(self) -> str:
        """Return whether it is set or removed."""
        return "remove" if self.after is None else "set"

    @property
    def label(self) -> str:
        """Return the label under which its refusal is listed."""
        return f"{self.resource}: {self.name}"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A config of a topic on the target; None means not set on the topic."""

    topic: str
    config: str
    before: str | None
    after: str | None

    @property
    def row(self) -> Row:
        """Return its row for people."""
        return Row(ChangeKind.TOPIC_CONFIG, f"topic {self.topic}", self.config, self.before, self.after)


@dataclass(frozen=True, slots=True)
class AclChange:
    """An ACL that should exist, or should not."""

    binding: AclBinding
    add: bool

    @property
    def row(self) -> Row:
        """Return its row for people."""
        permission = self.binding.permission
        return Row(
            ChangeKind.ACL,
            self.binding.resource,
            self.binding.right,
            None if self.add else permission,
            permission if self.add else None,
        )


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A client quota; None means not set for this entity."""

    entity: QuotaEntity
    key: str
    before: float | None
    after: float | None

    @property
    def row(self) -> Row:
        """Return its row for people."""
        return Row(
            ChangeKind.QUOTA, str(self.entity), self.key, quota_text(self.before), quota_text(self.after)
        )


MetadataChange = ConfigChange | AclChange | QuotaChange


@dataclass(frozen=True, slots=True)
class Drift:
    """A difference that is left as it is: the source's value, the target's value, and why it stays."""

    kind: ChangeKind
    resource: str
    name: str
    source: str | None
    target: str | None
    message: str


@dataclass(frozen=True, slots=True)
class LeftOutAcl:
    """An ACL of the source that the profile does not bring to the target, and why."""

    acl: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """The findings of one planner; for kinds that are `unknown` there may be more to change."""

    changes: tuple[MetadataChange, ...] = ()
    drift: tuple[Drift, ...] = ()
    refused: tuple[Refusal, ...] = ()
    agreed: tuple[MetadataChange, ...] = ()
    left_out: tuple[LeftOutAcl, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[ChangeKind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPlan(Part):
    """All changes planned on the target of a flow.

    `refused` are the items that could not be planned.  `agreed` are the agreed items that applying the plan also
    remembers.
    """

    flow: str
    profile: Profile

    @property
    def document(self) -> Json:
        """Return the plan as JSON, for `--output json` and `--save`."""
        return {
            "flow": self.flow,
            "profile": self.profile.value,
            "changes": [change_document(change) for change in self.changes],
            "drift": to_json(self.drift),
            "refused": to_json(self.refused),
            "left_out": to_json(self.left_out),
            "notes": list(self.notes),
        }


def join(flow: str, profile: Profile, parts: Iterable[Part]) -> MetadataPlan:
    """Put parts together, in their order."""
    found = list(parts)
    together: Json = {
        field.name: tuple(item for part in found for item in getattr(part, field.name))
        for field in fields(Part)
    }
    return MetadataPlan(flow=flow, profile=profile, **together)


def change_document(change: MetadataChange) -> Json:
    """Write a change as JSON: its row for people, and its fields under `item`."""
    row = change.row
    return {
        "kind": row.kind.value,
        "resource": row.resource,
        "name": row.name,
        "from": row.before,
        "to": row.after,
        "action": row.action,
        "item": to_json(change),
    }


class ThreeWay(StrEnum):
    """The decision about one setting of the target."""

    CHANGE = "change"
    KEEP = "keep"
    AGREED = "agreed"


def three_way(wanted: V | None, there: V | None, remembered: V | None) -> ThreeWay:
    """Decide on one setting by the source's value, the target's value, and the value that twinlog last gave it.

    A value on the target that twinlog did not set is kept.  A setting without a value on the target belongs to no one,
    so deleting one's own value hands the setting back to twinlog.
    """
    if there == wanted:
        return ThreeWay.AGREED
    return ThreeWay.CHANGE if there is None or there == remembered else ThreeWay.KEEP


def quota_text(value: float | None) -> str | None:
    """Write a quota without the `.0` of a whole number."""
    return None if value is None else f"{value:.17g}"

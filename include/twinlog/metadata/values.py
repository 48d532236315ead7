"""What the metadata sync would change on the target: values, and how each reads to people.  Pure.

`topic_config_plan`, `acl_plan`, `quota_plan` and `scram_plan` each make one `Part`; `sync_metadata` joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity, ScramCredential
from twinlog.config.flow.metadata import Profile
from twinlog.jsonable import to_json
from twinlog.topics.refusal import Refusal

V = TypeVar("V", str, float)


class ChangeKind(StrEnum):
    """What a change is about."""

    TOPIC_CONFIG = "topic-config"
    REPLICATION_FACTOR = "replication-factor"
    ACL = "acl"
    QUOTA = "quota"
    SCRAM_USER = "scram-user"


class Action(StrEnum):
    """What happens to it on the target."""

    SET = "set"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Row:
    """A change for people: `name` of `resource` goes from `before` to `after`; None is "not there"."""

    kind: ChangeKind
    resource: str
    name: str
    before: str | None
    after: str | None

    @property
    def action(self) -> Action:
        """Whether it is set or removed."""
        return Action.REMOVE if self.after is None else Action.SET

    @property
    def label(self) -> str:
        """What a refusal of it is filed under."""
        return f"{self.resource}: {self.name}"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A config of a topic of the target; None: not set on the topic."""

    topic: str
    config: str
    before: str | None
    after: str | None

    @property
    def row(self) -> Row:
        """How it reads."""
        return Row(ChangeKind.TOPIC_CONFIG, f"topic {self.topic}", self.config, self.before, self.after)


@dataclass(frozen=True, slots=True)
class AclChange:
    """An ACL to be there, or not."""

    binding: AclBinding
    add: bool

    @property
    def row(self) -> Row:
        """How it reads."""
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
    """A client quota; None: not set for this entity."""

    entity: QuotaEntity
    key: str
    before: float | None
    after: float | None

    @property
    def row(self) -> Row:
        """How it reads."""
        return Row(
            ChangeKind.QUOTA, str(self.entity), self.key, quota_text(self.before), quota_text(self.after)
        )


@dataclass(frozen=True, slots=True)
class ScramChange:
    """A credential that a declared user is to get; never the secret itself.

    `before` are the iterations of the one that is there.  `renews`: these stay, the secret alone is another one.
    """

    user: str
    credential: ScramCredential
    before: int | None
    renews: bool = False

    @property
    def row(self) -> Row:
        """How it reads."""
        before = None if self.before is None else f"{self.before} iterations"
        after = f"{self.credential.iterations} iterations{', the secret declared now' if self.renews else ''}"
        return Row(ChangeKind.SCRAM_USER, f"user {self.user}", self.credential.mechanism, before, after)


MetadataChange = ConfigChange | AclChange | QuotaChange | ScramChange


@dataclass(frozen=True, slots=True)
class Drift:
    """A difference that is left as it is: what the source has, what the target has, and why it stays."""

    kind: ChangeKind
    resource: str
    name: str
    source: str | None
    target: str | None
    message: str


@dataclass(frozen=True, slots=True)
class SettledConfig:
    """Source and target agree on a config: what to remember of it; None: nothing any more."""

    topic: str
    config: str
    value: str | None


@dataclass(frozen=True, slots=True)
class SettledQuota:
    """The same for a quota."""

    entity: QuotaEntity
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class GoneAcl:
    """An ACL that twinlog once added, gone from both clusters: nothing to remember."""

    binding: AclBinding


SettledSetting = SettledConfig | SettledQuota | GoneAcl


@dataclass(frozen=True, slots=True)
class LeftOutAcl:
    """An ACL of the source that the profile does not bring to the target, and why."""

    acl: str
    reason: str


@dataclass(frozen=True, slots=True)
class Part:
    """What one planner found; of kinds that are `unknown` there may be more to change."""

    changes: tuple[MetadataChange, ...] = ()
    drift: tuple[Drift, ...] = ()
    refused: tuple[Refusal, ...] = ()
    settled: tuple[SettledSetting, ...] = ()
    left_out: tuple[LeftOutAcl, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[ChangeKind, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataPlan:
    """Everything that would change on the target of a flow.

    `refused` could not be planned, item by item; of kinds that are `unknown` there may be more to change for it.
    `settled` is what applying the plan also remembers.
    """

    flow: str
    profile: Profile
    changes: tuple[MetadataChange, ...] = ()
    drift: tuple[Drift, ...] = ()
    refused: tuple[Refusal, ...] = ()
    settled: tuple[SettledSetting, ...] = ()
    left_out: tuple[LeftOutAcl, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[ChangeKind, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The plan as JSON, for `--output json` and `--save`."""
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
    together: Mapping[str, Any] = {
        field.name: tuple(item for part in found for item in getattr(part, field.name))
        for field in fields(Part)
    }
    return MetadataPlan(flow, profile, **together)


def change_document(change: MetadataChange) -> dict[str, Any]:
    """Write a change as JSON: how it reads, and under `item` what it is made of."""
    row = change.row
    return {
        "kind": row.kind.value,
        "resource": row.resource,
        "name": row.name,
        "from": row.before,
        "to": row.after,
        "action": row.action.value,
        "item": to_json(change),
    }


class ThreeWay(StrEnum):
    """What to do about one setting of the target."""

    CHANGE = "change"
    KEEP = "keep"
    SETTLED = "settled"


def three_way(wanted: V | None, there: V | None, remembered: V | None) -> ThreeWay:
    """Judge one setting by what the source has, what the target has, and what twinlog once gave it.

    What somebody else set on the target is kept; what is not set there is nobody's, so deleting one's own setting
    hands it back to twinlog.
    """
    if there == wanted:
        return ThreeWay.SETTLED
    return ThreeWay.CHANGE if there is None or there == remembered else ThreeWay.KEEP


def quota_text(value: float | None) -> str | None:
    """Write a quota without the `.0` of a whole number."""
    return None if value is None else f"{value:.17g}"

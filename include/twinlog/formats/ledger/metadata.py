"""Define what a flow remembers of metadata that it gave to the target, so that it takes back only its own.

Each record replaces the one before it as a whole; an empty one is written if nothing is left to remember.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class TopicConfigsSet(LedgerEntry):
    """The configs that twinlog set on a topic of the target, with the values that it gave them."""

    KIND = "topic-configs-set"
    IDENTITY = ("remote_topic",)
    remote_topic: str
    configs: Mapping[str, str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class AclGrant:
    """A rule of an ACL: who may (`ALLOW`) or may not (`DENY`) do what from where, each in Kafka's own spelling."""

    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class AclsAdded(LedgerEntry):
    """The ACLs that twinlog added to one resource pattern of the target, written before they are created."""

    KIND = "acls-added"
    IDENTITY = ("resource_type", "pattern", "name")
    resource_type: str
    pattern: str
    name: str
    grants: tuple[AclGrant, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class QuotasSet(LedgerEntry):
    """The client quotas that twinlog set for one entity of the target, e.g. `{"user": "alice"}`; None: the default."""

    KIND = "quotas-set"
    IDENTITY = ("entity",)
    entity: Mapping[str, str | None]
    quotas: Mapping[str, float]
    at_ms: int


@dataclass(frozen=True, slots=True)
class PlanApplied(LedgerEntry):
    """A saved metadata plan was applied; `digest` is that of its file, so that the plan is not applied twice."""

    KIND = "metadata-plan-applied"
    IDENTITY = ("digest",)
    digest: str
    profile: str
    changes: int
    at_ms: int


MetadataRecord = TopicConfigsSet | AclsAdded | QuotasSet | PlanApplied

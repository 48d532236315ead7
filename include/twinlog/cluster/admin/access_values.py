"""Permissions and limits as plain frozen values: ACLs and client quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ANY_NAME = "*"
"""The literal resource name that stands for every name (Kafka's ResourcePattern.WILDCARD_RESOURCE)."""


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One ACL, in the words of Kafka's protocol: `TOPIC LITERAL orders`, `User:alice` from `*`, `READ`, `ALLOW`.

    A number this release does not know stays visible as `UNKNOWN(15)`.
    """

    resource_type: str
    pattern: str
    name: str
    principal: str
    host: str
    operation: str
    permission: str

    def is_about(self, topic: str) -> bool:
        """Say whether the ACL is about this topic: by its name, a prefix of it, or `*`."""
        if self.resource_type != "TOPIC":
            return False
        return topic.startswith(self.name) if self.pattern == "PREFIXED" else self.name in {topic, ANY_NAME}

    @property
    def resource(self) -> str:
        """The ACL's resource, for people: `topic orders`, `topics orders-*`, `the cluster`."""
        kind = self.resource_type.lower().replace("_", " ")
        if self.resource_type == "CLUSTER":
            return "the cluster"
        if self.pattern == "PREFIXED":
            return f"{kind}s {self.name}*"
        return f"every {kind}" if self.name == ANY_NAME else f"{kind} {self.name}"

    @property
    def right(self) -> str:
        """The ACL's principal and operation, for people: `User:alice READ`, `User:bob from 10.0.0.7 READ`."""
        host = "" if self.host == "*" else f" from {self.host}"
        return f"{self.principal}{host} {self.operation}"


@dataclass(frozen=True, slots=True, order=True)
class QuotaEntity:
    """The entity of a client quota: pairs of `user`, `client-id` or `ip` and a name, sorted; None: the default."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> QuotaEntity:
        """Make one from a mapping, in any order."""
        return cls(tuple(sorted(parts.items())))

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name}" if name is not None else f"any {kind}" for kind, name in self.parts)


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
"""Client quotas by entity and key (`producer_byte_rate`, bytes/s; `request_percentage`; ...)."""

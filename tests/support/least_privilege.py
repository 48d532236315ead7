"""The fewest ACLs that serve all needs of a flow: docs/security.md shows them, and brokers are given nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.permissions.needs import BEFORE_2_8, Kind, Need

IMPLIED_BY: Mapping[str, frozenset[str]] = {
    "DESCRIBE": frozenset({"READ", "WRITE", "DELETE", "ALTER"}),
    "DESCRIBE_CONFIGS": frozenset({"ALTER_CONFIGS"}),
}
"""Operations that imply another one (org.apache.kafka.server.authorizer, `AclEntry`)."""

CLUSTER_NAME = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class Grant:
    """One ALLOW that a flow needs on a cluster, and its reason; `prefixed` covers later topics."""

    cluster: str
    kind: Kind
    name: str
    prefixed: bool
    operation: str
    why: str
    required: bool

    def binding(self, principal: str) -> AclBinding:
        """Return the ACL that grants it."""
        return AclBinding(
            self.kind.value.upper().replace("-", "_"),
            "PREFIXED" if self.prefixed else "LITERAL",
            self.name,
            principal,
            "*",
            self.operation,
            "ALLOW",
        )


def grants(needs: Iterable[Need]) -> tuple[Grant, ...]:
    """Return the grants that serve all needs, in their order, each once."""
    wanted: dict[tuple[str, Kind, str, bool], dict[str, Need]] = {}
    for need in needs:
        name = CLUSTER_NAME if need.resource.kind is Kind.CLUSTER else need.prefix or need.resource.name
        by_operation = wanted.setdefault((need.cluster, need.resource.kind, name, bool(need.prefix)), {})
        for operation in need.operations:
            known = by_operation.get(operation)
            if operation != BEFORE_2_8 and (known is None or (need.required and not known.required)):
                by_operation[operation] = need
    return tuple(
        Grant(cluster, kind, name, prefixed, operation, need.why, need.required)
        for (cluster, kind, name, prefixed), by_operation in wanted.items()
        for operation, need in by_operation.items()
        if not IMPLIED_BY.get(operation, frozenset()) & by_operation.keys()
    )

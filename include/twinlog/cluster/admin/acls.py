"""Read, create and delete ACLs with Kafka's own requests.

The client library is not used: it names neither every operation nor every type of resource that brokers have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.refusals import Asked, refused_by
from twinlog.cluster.values import Answers
from twinlog.errors import TwinlogError
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.socket.connection import Connection

REQUEST_ACLS = 1_000
ANY = 1
"""In a filter: every type, pattern, operation or permission."""

RESOURCE_TYPES = {
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
PATTERNS = {3: "LITERAL", 4: "PREFIXED"}
OPERATIONS = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
PERMISSIONS = {2: "DENY", 3: "ALLOW"}
"""org.apache.kafka.common.resource.ResourceType and PatternType, .acl.AclOperation and AclPermissionType."""


def operations(codes: Iterable[int] | None) -> frozenset[str]:
    """Return what a user may do, by the numbers that a broker lists; nothing if it lists none."""
    return frozenset(OPERATIONS[code] for code in codes or () if code in OPERATIONS)


_UNKNOWN = re.compile(r"UNKNOWN\((\d+)\)")


def describe_acls(brokers: Brokers) -> tuple[AclBinding, ...]:
    """Return every ACL of a cluster, sorted.

    Raises ClusterRefused: `no-authorizer` if the cluster keeps no ACLs, `unauthorised` if this user may not read them.
    """
    answer = brokers.any_broker().call(
        kafka_python.DESCRIBE_ACLS,
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    if answer.error_code:
        asked = Asked(brokers.settings.alias, "read", "the ACLs", "DESCRIBE on the cluster")
        raise refused_by(answer, asked)
    return tuple(
        sorted(
            AclBinding(
                _name(RESOURCE_TYPES, resource.resource_type),
                _name(PATTERNS, resource.pattern_type),
                resource.resource_name,
                acl.principal,
                acl.host,
                _name(OPERATIONS, acl.operation),
                _name(PERMISSIONS, acl.permission_type),
            )
            for resource in answer.resources
            for acl in resource.acls
        )
    )


def create_acls(brokers: Brokers, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
    """Create ACLs; one that exists already is a success."""
    api = kafka_python.CREATE_ACLS

    def create(it: AclBinding) -> Any:
        return api.request.AclCreation(
            resource_type=_code(RESOURCE_TYPES, it.resource_type),
            resource_name=it.name,
            resource_pattern_type=_code(PATTERNS, it.pattern),
            principal=it.principal,
            host=it.host,
            operation=_code(OPERATIONS, it.operation),
            permission_type=_code(PERMISSIONS, it.permission),
        )

    def ask(broker: Connection, part: Sequence[AclBinding]) -> Sequence[Any]:
        return broker.call(api, creations=[create(binding) for binding in part]).results  # type: ignore[no-any-return]

    return _change(brokers, "create", bindings, ask)


def delete_acls(brokers: Brokers, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
    """Delete exactly these ACLs; one that does not exist is a success."""
    api = kafka_python.DELETE_ACLS

    def only(it: AclBinding) -> Any:
        return api.request.DeleteAclsFilter(
            resource_type_filter=_code(RESOURCE_TYPES, it.resource_type),
            resource_name_filter=it.name,
            pattern_type_filter=_code(PATTERNS, it.pattern),
            principal_filter=it.principal,
            host_filter=it.host,
            operation=_code(OPERATIONS, it.operation),
            permission_type=_code(PERMISSIONS, it.permission),
        )

    def ask(broker: Connection, part: Sequence[AclBinding]) -> Sequence[Any]:
        answer = broker.call(api, filters=[only(binding) for binding in part])
        return [_worst(result) for result in answer.filter_results]

    return _change(brokers, "delete", bindings, ask)


def _change(
    brokers: Brokers,
    deed: str,
    bindings: Iterable[AclBinding],
    ask: Callable[[Connection, Sequence[AclBinding]], Sequence[Any]],
) -> Answers[AclBinding, None]:
    wanted = list(bindings)
    refused: dict[AclBinding, TwinlogError] = {}
    for start in range(0, len(wanted), REQUEST_ACLS):
        part = wanted[start : start + REQUEST_ACLS]
        for it, result in zip(part, ask(brokers.any_broker(), part), strict=True):
            if result.error_code:
                what = f"the ACL {it.permission} {it.right} on {it.resource}"
                refused[it] = refused_by(
                    result, Asked(brokers.settings.alias, deed, what, "ALTER on the cluster")
                )
    return Answers({binding: None for binding in wanted if binding not in refused}, refused)


def _worst(result: Any) -> Any:
    """Return the failure of one filter: of the filter itself, or of a deletion of an ACL that it matched."""
    return next((it for it in (result, *result.matching_acls) if it.error_code), result)


def _name(table: Mapping[int, str], code: int) -> str:
    return table.get(code, f"UNKNOWN({code})")


def _code(table: Mapping[int, str], name: str) -> int:
    unknown = _UNKNOWN.fullmatch(name)
    return int(unknown[1]) if unknown else next(code for code, known in table.items() if known == name)

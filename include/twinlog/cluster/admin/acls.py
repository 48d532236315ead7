"""Read, create and delete ACLs with Kafka's own requests.

The client library is not used: it names neither every operation nor every type of resource that brokers have.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.session import Asked, refusal
from twinlog.cluster.values import Answers
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TwinlogError
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers

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

_UNKNOWN = re.compile(r"UNKNOWN\((\d+)\)")


def describe_acls(settings: ConnectionSettings) -> tuple[AclBinding, ...]:
    """Return every ACL of a cluster, sorted.

    Raises ClusterRefused: `no-authorizer` if the cluster keeps no ACLs, `unauthorised` if this user may not read them.
    """
    with Brokers(settings) as brokers:
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
        asked = Asked(settings.alias, "read", "the ACLs", "DESCRIBE on the cluster")
        raise _refusal(answer, asked)
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


def create_acls(settings: ConnectionSettings, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
    """Create ACLs; one that exists already is a success."""
    creation = kafka_python.CREATE_ACLS.request.AclCreation
    refused: dict[AclBinding, TwinlogError] = {}
    wanted = list(bindings)
    with Brokers(settings) as brokers:
        for part in _parts(wanted):
            creations = [
                creation(
                    resource_type=_code(RESOURCE_TYPES, it.resource_type),
                    resource_name=it.name,
                    resource_pattern_type=_code(PATTERNS, it.pattern),
                    principal=it.principal,
                    host=it.host,
                    operation=_code(OPERATIONS, it.operation),
                    permission_type=_code(PERMISSIONS, it.permission),
                )
                for it in part
            ]
            answer = brokers.any_broker().call(kafka_python.CREATE_ACLS, creations=creations)
            refused |= _refused(settings.alias, "create", part, answer.results)
    return Answers({it: None for it in wanted if it not in refused}, refused)


def delete_acls(settings: ConnectionSettings, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
    """Delete exactly these ACLs; one that does not exist is a success."""
    one = kafka_python.DELETE_ACLS.request.DeleteAclsFilter
    refused: dict[AclBinding, TwinlogError] = {}
    wanted = list(bindings)
    with Brokers(settings) as brokers:
        for part in _parts(wanted):
            filters = [
                one(
                    resource_type_filter=_code(RESOURCE_TYPES, it.resource_type),
                    resource_name_filter=it.name,
                    pattern_type_filter=_code(PATTERNS, it.pattern),
                    principal_filter=it.principal,
                    host_filter=it.host,
                    operation=_code(OPERATIONS, it.operation),
                    permission_type=_code(PERMISSIONS, it.permission),
                )
                for it in part
            ]
            answer = brokers.any_broker().call(kafka_python.DELETE_ACLS, filters=filters)
            results = [_worst(result) for result in answer.filter_results]
            refused |= _refused(settings.alias, "delete", part, results)
    return Answers({it: None for it in wanted if it not in refused}, refused)


def _worst(result: Any) -> Any:
    """Return the failure of one filter: of the filter itself, or of a deletion of an ACL that it matched."""
    return next((it for it in (result, *result.matching_acls) if it.error_code), result)


def _parts(bindings: Sequence[AclBinding]) -> Iterable[list[AclBinding]]:
    items = iter(bindings)
    return iter(lambda: list(itertools.islice(items, REQUEST_ACLS)), [])


def _refused(
    alias: str, deed: str, bindings: Sequence[AclBinding], results: Sequence[Any]
) -> dict[AclBinding, TwinlogError]:
    return {
        binding: _refusal(result, _asked(alias, deed, binding))
        for binding, result in zip(bindings, results, strict=True)
        if result.error_code
    }


def _asked(alias: str, deed: str, it: AclBinding) -> Asked:
    return Asked(alias, deed, f"the ACL {it.permission} {it.right} on {it.resource}", "ALTER on the cluster")


def _refusal(answer: Any, asked: Asked) -> TwinlogError:
    return refusal(KafkaError(answer.error_code, answer.error_message), asked)


def _name(table: Mapping[int, str], code: int) -> str:
    return table.get(code, f"UNKNOWN({code})")


def _code(table: Mapping[int, str], name: str) -> int:
    unknown = _UNKNOWN.fullmatch(name)
    return int(unknown[1]) if unknown else next(code for code, known in table.items() if known == name)

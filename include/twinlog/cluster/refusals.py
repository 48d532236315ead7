"""Turn Kafka's error codes into our errors: one table, used by every method.

Names and numbers are the Kafka protocol's error codes; negative ones are librdkafka's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from twinlog.cluster.values import NO_SUCH_TOPIC
from twinlog.errors import ClusterRefused, ClusterUnreachable, TwinlogError

UNREACHABLE = frozenset({
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
})
NOT_ALLOWED = frozenset({
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
})
BAD_LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
UNKNOWN_TOPIC = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
})


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a cluster, for the message: `deed` reads after "to", `acl` is the permission it needs."""

    alias: str
    deed: str
    resource: str
    acl: str


def refusal(error: KafkaError, asked: Asked) -> TwinlogError:
    """Turn a broker's or the client library's error into ours, naming cluster, resource and missing ACL."""
    code = error.code()
    data = {"cluster": asked.alias, "resource": asked.resource, "kafka_error": error.name()}
    said = error.str().rstrip(".")
    if code in UNREACHABLE:
        return unreachable(asked.alias, f"no answer to {asked.deed} {asked.resource}: {said}", **data)
    if code in BAD_LOGIN:
        return bad_login(asked.alias, said)
    if code in NOT_ALLOWED:
        return ClusterRefused(
            f"{asked.alias} does not allow this user to {asked.deed} {asked.resource}",
            hint=f"grant {asked.acl}",
            code="unauthorised",
            **data,
        )
    if code in UNKNOWN_TOPIC:
        return ClusterRefused(
            f"{asked.alias} has no {asked.resource}",
            hint="it was deleted, or this user may not see it (needs DESCRIBE)",
            code=NO_SUCH_TOPIC,
            **data,
        )
    if code == KafkaError.SECURITY_DISABLED:
        return ClusterRefused(
            f"{asked.alias} keeps no ACLs: it has no authorizer", code="no-authorizer", **data
        )
    kind = ClusterUnreachable if error.retriable() else ClusterRefused
    return kind(f"{asked.alias} would not {asked.deed} {asked.resource}: {said} ({error.name()})", **data)


def unreachable(alias: str, reason: str, **data: Any) -> ClusterUnreachable:
    """Make the error for a cluster of which no broker answered."""
    return ClusterUnreachable(
        f"cluster {alias} cannot be reached: {reason}",
        hint=f"check {alias}.bootstrap.servers, the listener's protocol and the network",
        **{"cluster": alias, **data},
    )


def bad_login(alias: str, reason: str) -> ClusterRefused:
    """Make the error for a cluster that answered and did not accept the login."""
    return ClusterRefused(
        f"cluster {alias} does not accept the login: {reason}",
        hint=f"check {alias}.sasl.mechanism, {alias}.sasl.jaas.config and the user's credentials",
        code="authentication",
        cluster=alias,
    )


def tls_failed(alias: str, reason: str) -> ClusterRefused:
    """Make the error for a failed TLS handshake: a matter of certificates or of the port, not of waiting."""
    return ClusterRefused(
        f"the TLS handshake with cluster {alias} failed: {reason}",
        hint=f"check {alias}.security.protocol, {alias}.ssl.truststore.* and the broker's host name",
        code="tls",
        cluster=alias,
    )

"""Turn what a broker, or the client library, answers into our errors: they name cluster, resource and missing ACL."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from twinlog.cluster.values import NO_SUCH_TOPIC, Answers
from twinlog.errors import ClusterRefused, ClusterUnreachable, TwinlogError
from twinlog.protocol.errors import AUTHORIZATION, Code, Request, bad_login, repeats, unreachable
from twinlog.protocol.kafka_python import NOT_OFFERED

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

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
NOT_THERE = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION})
BAD_LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
UNKNOWN_TOPIC = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
})

_LATER = frozenset({Code.NOT_CONTROLLER, Code.THROTTLING_QUOTA_EXCEEDED})
"""A change was not made, and may be in a while."""

_MUTATIONS = "this user's quota controller_mutation_rate is used up: raise it, or try again later"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a cluster, for the message: `deed` reads after "to", `acl` is the permission it needs."""

    alias: str
    deed: str
    resource: str
    acl: str

    @classmethod
    def about(cls, alias: str, deed: str, resource: str, operation: str) -> Asked:
        """Make a question that needs this operation on the resource that it is about, such as `topic orders`."""
        return cls(alias, deed, resource, f"{operation} on {resource}")


def refusal(error: KafkaError, asked: Asked) -> TwinlogError:
    """Turn a broker's or the client library's error into ours, naming cluster, resource and missing ACL."""
    code = error.code()
    data = {
        "cluster": asked.alias,
        "resource": asked.resource,
        "kafka_error": error.name(),
        "kafka_code": code,
    }
    said = error.str().rstrip(".")
    if code in UNREACHABLE:
        return unreachable(asked.alias, f"no answer to {asked.deed} {asked.resource}: {said}", **data)
    if code in BAD_LOGIN:
        return bad_login(asked.alias, said)
    if (known := _known_refusal(code, asked, data)) is not None:
        return known
    kind = ClusterUnreachable if error.retriable() else ClusterRefused
    message = f"{asked.alias} would not {asked.deed} {asked.resource}: {said} ({error.name()})"
    return kind(message, hint=_MUTATIONS if code == Code.THROTTLING_QUOTA_EXCEEDED else "", **data)


def _known_refusal(code: int, asked: Asked, data: Mapping[str, Any]) -> ClusterRefused | None:
    """Explain the refusals that a person can do something about; None for any other."""
    if code in AUTHORIZATION:
        return ClusterRefused(
            f"{asked.alias} does not allow this user to {asked.deed} {asked.resource}",
            hint=f"grant {asked.acl}",
            code="unauthorised",
            **data,
        )
    if code in NOT_THERE:
        return ClusterRefused(
            f"{asked.alias} does not offer the request to {asked.deed} {asked.resource}",
            hint="docs/refused-requests.md says what needs it",
            code=NOT_OFFERED,
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
    return None


def refused_by(answer: Any, asked: Asked) -> TwinlogError:
    """Make our error of an answer, or a part of one, to a request of our own: it has a code and maybe a text."""
    code = answer.error_code
    said = getattr(answer, "error_message", None) or None
    return refusal(KafkaError(code, said, False, code in _LATER or repeats(Request.LOOK_UP, code)), asked)


def sorted_out(
    wanted: Iterable[K],
    ask: Callable[[], Iterable[tuple[K, Any]]],
    value: Callable[[Any], V],
    asked: Callable[[K], Asked],
) -> Answers[K, V]:
    """Ask, and sort the answers, each with its error code, into found and refused.

    A request that the cluster does not offer at all refuses everything that is `wanted`.
    """
    try:
        answered = list(ask())
    except ClusterRefused as error:
        if error.code != NOT_OFFERED:
            raise
        return Answers({}, dict.fromkeys(wanted, error))
    found = {item: value(answer) for item, answer in answered if not answer.error_code}
    refused = {item: refused_by(answer, asked(item)) for item, answer in answered if answer.error_code}
    return Answers(found, refused)

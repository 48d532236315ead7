"""One admin connection to a cluster: requests have a time limit, silence is noticed early, a refusal is explained.

librdkafka keeps on trying to connect until a request times out. Its error callback knows sooner. If it has said that
no broker can be used, and this question was not answered for `GIVE_UP_SECONDS`, we stop waiting. The next question has
a client of its own: the cluster may be back, and a run in follow mode asks for weeks. That one question waits for
`ONCE_MORE_SECONDS` only, so that a run that has found its source gone need not wait in full to find it still gone.

If it has said that one broker is gone, the question is asked again by a new client. librdkafka keeps to the controller
it knows, waits for it to come back, and learns of another one only with the next periodic metadata
(topic.metadata.refresh.interval.ms, five minutes). To clients, brokers call any broker the controller, also one that
has just died, until its session ends (nine seconds).

A frozen broker keeps its connections and says nothing, and librdkafka may ask it until its session ends. So a question
that was not answered for `SILENT_SECONDS` is asked again by a new client, which is given twice the time.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from twinlog.cluster.values import NO_SUCH_TOPIC, Answers
from twinlog.config.security.connection import ClusterSettings
from twinlog.config.security.librdkafka import Role, connection_of, librdkafka, security
from twinlog.errors import ClusterRefused, ClusterUnreachable, TwinlogError
from twinlog.protocol.errors import AUTHORIZATION, bad_login, tls_failed, unreachable
from twinlog.protocol.kafka_python import NOT_OFFERED
from twinlog.protocol.socket import login

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Send = Callable[[AdminClient], Mapping[K, Future[V]]]
REQUEST_SECONDS = 25.0
GIVE_UP_SECONDS = 5.0
ONCE_MORE_SECONDS = 2.0
SILENT_SECONDS = 8.0
POLL_SECONDS = 0.02

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
NOT_SENT = "waiting for controller"
"""Words by which librdkafka says that it has not sent a request that timed out (rdkafka_admin.c)."""
NOT_THERE = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION})
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
    return kind(f"{asked.alias} would not {asked.deed} {asked.resource}: {said} ({error.name()})", **data)


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


class Session:
    """An AdminClient, and what its error callback has said since the last answer."""

    def __init__(
        self, alias: str, properties: Mapping[str, Any], client: Callable[[Any], Any] = AdminClient
    ) -> None:
        self.alias = alias
        self._client = client
        self._trouble_since: float | None = None
        self._broker_lost_since: float | None = None
        self._reason = "no broker answered"
        self._verdict: TwinlogError | None = None
        self._gave_up = False
        self._properties = {**properties, "error_cb": self._heard, "log_level": 0}
        self.admin = client(self._properties)

    def answers(
        self, send: Send[K, V], asked: Callable[[K], Asked], *, changes: bool = False
    ) -> Answers[K, V]:
        """Send a request, wait for all of its futures and sort them into found and refused.

        What changes something is asked again only if it was never sent: a broker may still hold the first request, and
        must not do it after what follows.

        Raises ClusterUnreachable if the cluster as a whole does not answer, ClusterRefused if it does not accept the
        login or its TLS handshake fails.
        """
        futures = self._ask(send, changes=changes)
        found: dict[K, V] = {}
        refused: dict[K, TwinlogError] = {}
        for item, future in futures.items():
            error = kafka_error(future)
            if error is None:
                found[item] = future.result()
            else:
                refused[item] = refusal(error, asked(item))
        if any(isinstance(error, ClusterUnreachable) for error in refused.values()):
            self._begin_anew()
        return Answers(found, refused)

    def answer(self, send: Callable[[AdminClient], Future[V]], asked: Asked) -> V:
        """Send a request that has one future, and return its value.

        Raises the cluster's refusal.
        """
        answers = self.answers(lambda admin: {asked.resource: send(admin)}, lambda _: asked)
        return answers.require()[asked.resource]

    def _begin_anew(self) -> None:
        """Make a new client, so that the next question finds the cluster anew."""
        self._forget_trouble()
        self.admin = self._client(self._properties)

    def _forget_trouble(self) -> None:
        self._trouble_since = self._broker_lost_since = self._verdict = None

    def _ask(self, send: Send[K, V], *, changes: bool) -> Mapping[K, Future[V]]:
        """Send a request, and again by new clients for `REQUEST_SECONDS`; the last time it is waited for to its end."""
        deadline, patience = time.monotonic() + REQUEST_SECONDS, SILENT_SECONDS
        while True:
            last, futures = time.monotonic() > deadline, send(self.admin)
            done = self._wait(futures.values(), None if last or changes else patience)
            if last or (done and not any(map(_never_sent, futures.values()))):
                return futures
            self._begin_anew()
            patience *= 2

    def _wait(self, futures: Iterable[Future[Any]], patience: float | None) -> bool:
        """Wait until all are done; return False if a new client should rather ask.

        It should if a broker is lost, or after `patience` seconds; if that is None, all are waited for.
        """
        pending, began = list(futures), time.monotonic()
        while pending := [future for future in pending if not future.done()]:
            wait_for(pending[-1:], timeout=POLL_SECONDS)  # futures are answered in a row, as a rule
            self.admin.poll(0)
            self._stop_if_hopeless()
            if patience is None or self._trouble_since is not None:
                continue
            if _for(GIVE_UP_SECONDS, self._broker_lost_since) or time.monotonic() - began > patience:
                return False
        self._forget_trouble()
        self._gave_up = False
        return True

    def _stop_if_hopeless(self) -> None:
        if _for(ONCE_MORE_SECONDS if self._gave_up else GIVE_UP_SECONDS, self._trouble_since):
            verdict = self._verdict or unreachable(self.alias, self._reason)
            self._begin_anew()
            self._gave_up = not self._gave_up
            raise verdict

    def _heard(self, error: KafkaError) -> None:
        """Remember what the client library says about its connections (called from `poll`)."""
        if error.code() in BAD_LOGIN:
            self._verdict = bad_login(self.alias, error.str())
        elif error.code() == KafkaError._SSL:
            self._verdict = tls_failed(self.alias, error.str())
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._reason = error.str()
            self._broker_lost_since = self._broker_lost_since or time.monotonic()
            return
        self._trouble_since = self._trouble_since or time.monotonic()


def _never_sent(future: Future[Any]) -> bool:
    """Say whether the client library gave up before it sent a request."""
    error = kafka_error(future)
    return error is not None and error.code() == KafkaError._TIMED_OUT and NOT_SENT in error.str()


def _for(seconds: float, since: float | None) -> bool:
    return since is not None and time.monotonic() - since > seconds


def refused_by(answer: Any, asked: Asked) -> TwinlogError:
    """Make our error of an answer, or a part of one, to a request of our own: it has a code and a text."""
    return refusal(KafkaError(answer.error_code, answer.error_message), asked)


def kafka_error(future: Future[Any]) -> KafkaError | None:
    """Return the KafkaError a finished future failed with, None if it succeeded."""
    failure = future.exception()
    if failure is None:
        return None
    if isinstance(failure, KafkaException):
        return failure.args[0]
    raise failure


def client_properties(cluster: ClusterSettings, role: Role = "admin") -> dict[str, Any]:
    """Build the properties that a confluent-kafka client of this role starts from.

    Settings made by hand may have a connection and no Java properties: then the connection is used alone.
    """
    java, connection = getattr(cluster, role), connection_of(cluster, role)
    result: dict[str, Any] = dict(librdkafka(cluster, role, connection) if java else security(connection))
    if (sasl := connection.sasl) is not None and sasl.by_callback:
        result["oauth_cb"] = functools.partial(login.for_client, sasl)
    return result


REQUEST_RECORDS = 5_000
"""Most metadata records of one request: KRaft refuses a request as a whole if it makes more than 10,000."""


def requests(
    wanted: Iterable[V], size_of: Callable[[V], int], *, most: int = REQUEST_RECORDS, items: int | None = None
) -> Iterator[list[V]]:
    """Cut where a request would be larger than `most`, or have more than `items`; a larger item goes alone. Pure."""
    request: list[V] = []
    total = 0
    for it in wanted:
        size = size_of(it)
        if request and (total + size > most or len(request) == items):
            yield request
            request, total = [], 0
        request.append(it)
        total += size
    if request:
        yield request


def rounds(changes: Mapping[K, Mapping[str, V]]) -> Iterator[dict[K, dict[str, V]]]:
    """Spread changes over requests with one key of each item: a broker answers once an item.  Pure."""
    waiting = {item: list(values.items()) for item, values in changes.items()}
    while part := {item: dict(values[:1]) for item, values in waiting.items() if values}:
        yield part
        waiting = {item: values[1:] for item, values in waiting.items()}


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster's id, how many brokers are registered with it, and what this user may do on it, if it was asked."""

    cluster_id: str
    brokers: int
    operations: frozenset[str] = frozenset()


def describe_cluster(session: Session, *, operations: bool = False) -> ClusterDescription:
    """Ask any broker about its cluster; this is the cheapest proof that the cluster can be reached.

    Brokers tell the operations only to a user who may DESCRIBE the cluster (KafkaApis).
    """
    answer = session.answer(
        lambda admin: admin.describe_cluster(
            include_authorized_operations=operations, request_timeout=REQUEST_SECONDS
        ),
        Asked(session.alias, "describe", "the cluster", "DESCRIBE on the cluster"),
    )
    allowed = frozenset(operation.name for operation in answer.authorized_operations or ())
    return ClusterDescription(answer.cluster_id or "", len(answer.nodes), allowed)

"""Judge Java client properties: which leave something unprotected, and which connections follow one.

The copy fetches and writes over twinlog's own connections, with the consumer's properties of the source and the
producer's of the target.  Everything else follows the role that the property belongs to: administration over
connections of its own, twinlog's few records and drills by confluent-kafka.  A table of tests changes every key and
checks what changes.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinlog.config.file.java_keys import ROLE_KEYS
from twinlog.config.file.providers import Secret
from twinlog.config.security.connection import ConnectionSettings

_PROTOCOL = "security.protocol"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"
_IN_CLEAR = {
    "PLAIN": "with PLAIN the password crosses the network in clear",
    "OAUTHBEARER": "with OAUTHBEARER the token crosses the network in clear",
}


@dataclass(frozen=True, slots=True)
class Exposure:
    """One property that leaves something unprotected: its key, what is unprotected, and what to do."""

    key: str
    message: str
    hint: str


def exposures(connection: ConnectionSettings, properties: Mapping[str, str | Secret]) -> Iterator[Exposure]:
    """Yield what the properties of a connection leave unprotected."""
    sasl = connection.sasl
    if sasl is not None and not connection.protocol.tls and sasl.mechanism in _IN_CLEAR:
        yield Exposure(_PROTOCOL, _IN_CLEAR[sasl.mechanism], "set SASL_SSL")
    if sasl is not None and (sasl.token_endpoint or "").lower().startswith("http:"):
        yield Exposure(
            _ENDPOINT, "client secret and token cross the network in clear", "use an https:// address"
        )
    if connection.protocol.tls and not connection.tls.verify_hostname and _IDENTIFICATION in properties:
        yield Exposure(
            _IDENTIFICATION,
            "is empty: whoever holds any certificate of the same authority passes for a broker",
            "remove the line, and give the brokers certificates with their host names",
        )


FETCH_SIZES = {
    "fetch.max.bytes": "twinlog.fetch.bytes",
    "max.partition.fetch.bytes": "twinlog.partition.fetch.bytes",
}
"""Properties of the source's consumer, and our key whose default they are."""

STEERING = ("isolation.level", "auto.offset.reset")
"""Properties of the source's consumer that steer the copy."""

HELD = frozenset({"acks", "enable.idempotence", "enable.auto.commit", "transactional.id"})
"""Properties that twinlog sets itself, because copying exactly once depends on them."""

_CONNECTION = frozenset(
    """
    bootstrap.servers client.rack request.timeout.ms security.protocol socket.connection.setup.timeout.ms
    ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type sasl.jaas.config sasl.mechanism
    sasl.kerberos.service.name sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    """.split()  # noqa: SIM905 - one name a word, as in java_keys
)

_ACCEPTED = frozenset(
    """
    sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwt.retriever.class security.providers
    ssl.engine.factory.class ssl.provider
    """.split()  # noqa: SIM905
)

_LIBRARY = frozenset(
    """
    connections.max.idle.ms metadata.max.age.ms reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms
    retry.backoff.ms
    """.split()  # noqa: SIM905
)


class Reach(StrEnum):
    """Name what follows a property.  CHECKED: nothing does, but a value that would matter is refused."""

    BOTH = "copy and others"
    COPY = "copy"
    OTHERS = "others"
    CHECKED = "checked only"
    NEITHER = "neither"


def reach(role: str, key: str, relay_role: str) -> Reach:
    """Return what follows `key` of a role, on a cluster where the relay connects as `relay_role`.  Pure."""
    if key in HELD or key not in ROLE_KEYS[role]:
        return Reach.NEITHER
    if key in _ACCEPTED:
        return Reach.CHECKED
    if key == "client.id":  # the name of the copy's connections is also that of all others
        return Reach.BOTH if role == relay_role else Reach.NEITHER
    if key in _CONNECTION:
        return Reach.BOTH if role == relay_role else Reach.OTHERS
    if key in _LIBRARY:
        return Reach.NEITHER if role == "admin" else Reach.OTHERS
    steers = role == relay_role == "consumer" and (key in FETCH_SIZES or key in STEERING)
    return Reach.COPY if steers else Reach.NEITHER

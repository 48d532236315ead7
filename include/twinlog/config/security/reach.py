"""Decide which of twinlog's two kinds of clients follows a Java client property: the copy, the library, or none.

The copy fetches and writes over the relay's own connections, with the consumer's properties of the source and the
producer's of the target.  Everything else (topics, groups, twinlog's own few records) goes through confluent-kafka, in
the role that the property belongs to.  A table of tests changes every key and checks what changes.
"""

from __future__ import annotations

from enum import StrEnum

from twinlog.config.file.java_keys import ROLE_KEYS

FETCH_SIZES = {
    "fetch.max.bytes": "twinlog.fetch.bytes",
    "max.partition.fetch.bytes": "twinlog.partition.fetch.bytes",
}
"""Properties of the source's consumer, and our key whose default they are."""

STEERING = ("isolation.level", "auto.offset.reset")
"""Properties of the source's consumer that steer the copy."""

HELD = frozenset({"acks", "enable.idempotence", "enable.auto.commit", "transactional.id"})
"""Properties that twinlog sets itself, because the guarantee depends on them."""

_CONNECTION = frozenset(
    """
    bootstrap.servers request.timeout.ms security.protocol socket.connection.setup.timeout.ms
    ssl.endpoint.identification.algorithm ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key
    ssl.keystore.location ssl.keystore.password ssl.keystore.type ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type sasl.jaas.config sasl.mechanism
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
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
    client.rack connections.max.idle.ms metadata.max.age.ms reconnect.backoff.max.ms reconnect.backoff.ms
    retry.backoff.max.ms retry.backoff.ms
    """.split()  # noqa: SIM905
)


class Reach(StrEnum):
    """Which client follows a property.  CHECKED: no client does, but a value that would matter is refused."""

    BOTH = "copy and client library"
    COPY = "copy"
    LIBRARY = "client library"
    CHECKED = "checked only"
    NEITHER = "neither"


def reach(role: str, key: str, relay_role: str) -> Reach:
    """Return which client follows `key` of a role, on a cluster where the relay connects as `relay_role`.  Pure."""
    if key in HELD or key not in ROLE_KEYS[role]:
        return Reach.NEITHER
    if key in _ACCEPTED:
        return Reach.CHECKED
    if key == "client.id":  # the name of the copy's connections is also that of all others
        return Reach.BOTH if role == relay_role else Reach.NEITHER
    if key in _CONNECTION:
        return Reach.BOTH if role == relay_role else Reach.LIBRARY
    if key in _LIBRARY:
        return Reach.LIBRARY
    steers = role == relay_role == "consumer" and (key in FETCH_SIZES or key in STEERING)
    return Reach.COPY if steers else Reach.NEITHER

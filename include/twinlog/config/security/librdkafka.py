"""Turn Java client properties into the configuration of confluent-kafka (librdkafka) for one role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from twinlog.config.file.keys import whole_number
from twinlog.config.file.providers import reveal
from twinlog.config.security.client_properties import connection_settings
from twinlog.config.security.connection import (
    ClientProperties,
    ClusterSettings,
    ConnectionSettings,
    SaslSettings,
    TlsSettings,
    text_of,
    wrong,
)

Role = Literal["consumer", "producer", "admin"]
Setting = str | int | bool

_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 100, 10_000
"""librdkafka's defaults of reconnect.backoff.ms and reconnect.backoff.max.ms."""

MAPPED: Mapping[str, tuple[str, int, int]] = {
    "metadata.max.age.ms": ("metadata.max.age.ms", 1, 86_400_000),
    "connections.max.idle.ms": ("connections.max.idle.ms", 0, 2**31 - 1),
    "reconnect.backoff.ms": ("reconnect.backoff.ms", 0, 3_600_000),
    "reconnect.backoff.max.ms": ("reconnect.backoff.max.ms", 0, 3_600_000),
    "retry.backoff.ms": ("retry.backoff.ms", 1, 300_000),
    "retry.backoff.max.ms": ("retry.backoff.max.ms", 1, 300_000),
    "request.timeout.ms": ("socket.timeout.ms", 10, 300_000),
    "socket.connection.setup.timeout.ms": ("socket.connection.setup.timeout.ms", 1000, 2**31 - 1),
}
"""Numbers of a Java client's connections: librdkafka's name, and the range outside of which it refuses to start.

Java allows more; 0 means "never" for librdkafka's idle connections, as -1 does for Java's.  Java's settings about
records (`fetch.*`, `linger.ms`) have no place here: confluent-kafka only writes single records
(cluster/records.py).
"""


def librdkafka(
    cluster: ClusterSettings, role: Role, connection: ConnectionSettings | None = None
) -> dict[str, Setting]:
    """Return the configuration dict of confluent-kafka for one role of a cluster, secrets in the clear.

    `connection` is that of the role, if the caller has it: making it reads key stores.  Hand the result to a client's
    constructor and nowhere else.  Raises ConfigError if a property cannot be mapped.
    """
    properties: ClientProperties = getattr(cluster, role)
    connection = connection or connection_of(cluster, role)
    # These override the file: twinlog's own writes must not be lost or doubled by a retry.
    held: dict[str, Setting] = {"acks": "all", "enable.idempotence": True} if role == "producer" else {}
    return {**tunables(properties), **held, **security(connection)}


def connection_of(cluster: ClusterSettings, role: Role) -> ConnectionSettings:
    """Return addresses, TLS and SASL of one role of a cluster; those of the relay if it has no Java properties."""
    properties: ClientProperties = getattr(cluster, role)
    if not properties:
        return cluster.connection
    return connection_settings(cluster.alias, properties, client_id=cluster.connection.client_id)


def security(connection: ConnectionSettings) -> dict[str, Setting]:
    """Return addresses, TLS and SASL of a connection under librdkafka's names."""
    result: dict[str, Setting] = {
        "bootstrap.servers": ",".join(map(_address, connection.bootstrap)),
        "client.id": connection.client_id,
        "security.protocol": connection.protocol.value,
    }
    if connection.protocol.tls:
        result |= _tls(connection.tls)
    if connection.sasl is not None:
        mechanism = connection.sasl.mechanism
        result |= {"sasl.mechanism": mechanism, **_SASL[mechanism](connection.sasl)}
    return result


def _address(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(tls: TlsSettings) -> dict[str, Setting]:
    result: dict[str, Setting] = {
        "ssl.endpoint.identification.algorithm": "https" if tls.verify_hostname else "none"
    }
    if tls.ca_pem is not None:
        result["ssl.ca.pem"] = tls.ca_pem
    if tls.certificate_pem is not None and tls.key_pem is not None:
        result["ssl.certificate.pem"] = tls.certificate_pem
        result["ssl.key.pem"] = tls.key_pem.reveal()
    if tls.key_password is not None:
        result["ssl.key.password"] = tls.key_password.reveal()
    return result


def _user_and_password(sasl: SaslSettings) -> dict[str, Setting]:
    return {
        "sasl.username": sasl.username,
        "sasl.password": reveal(sasl.password or ""),
    }


def _oauth(sasl: SaslSettings) -> dict[str, Setting]:
    if sasl.by_callback:
        return {}  # the token comes by a callback (cluster/records.py)
    if sasl.token_endpoint is None:
        principal, value = sasl.unsecured_claims[0]
        return {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principalClaimName={principal} principal={value}",
        }
    result: dict[str, Setting] = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": sasl.token_endpoint,
        "sasl.oauthbearer.client.id": sasl.username,
        "sasl.oauthbearer.client.secret": reveal(sasl.password or ""),
    }
    if sasl.scope:
        result["sasl.oauthbearer.scope"] = sasl.scope
    if sasl.extensions:
        result["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in sasl.extensions)
    return result


def _kerberos(sasl: SaslSettings) -> dict[str, Setting]:
    """Return what a build with GSSAPI takes; `kinit` renews its tickets."""
    assert sasl.kerberos is not None
    found: dict[str, Setting] = {"sasl.kerberos.service.name": sasl.kerberos.service}
    if sasl.kerberos.keytab:
        found["sasl.kerberos.keytab"] = sasl.kerberos.keytab
        found["sasl.kerberos.principal"] = sasl.kerberos.principal
    return found


_SASL: Mapping[str, Callable[[SaslSettings], dict[str, Setting]]] = {
    "PLAIN": _user_and_password,
    "SCRAM-SHA-256": _user_and_password,
    "SCRAM-SHA-512": _user_and_password,
    "OAUTHBEARER": _oauth,
    "GSSAPI": _kerberos,
}


def tunables(properties: ClientProperties) -> dict[str, Setting]:
    """Return the connection settings of a Java client, within librdkafka's ranges.

    Raises ConfigError with the key if a value is not a number.
    """
    result: dict[str, Setting] = {}
    numbers: dict[str, int] = {}
    for java, (name, low, high) in MAPPED.items():
        if java in properties:
            numbers[name] = min(max(_number(java, text_of(properties, java)), low), high)
    if "client.rack" in properties:
        result["client.rack"] = text_of(properties, "client.rack")
    return result | numbers | _ordered(numbers)


def _number(java: str, text: str) -> int:
    try:
        return whole_number(text)
    except ValueError:
        raise wrong(java, "is not a whole number") from None


def _ordered(numbers: Mapping[str, int]) -> dict[str, int]:
    """Keep the first pause within the longest one; librdkafka demands it even if only one of them is written."""
    first, longest = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
    if longest in numbers:
        return {first: min(numbers.get(first, _FIRST_PAUSE_MS), numbers[longest])}
    return {longest: max(numbers[first], _LONGEST_PAUSE_MS)} if first in numbers else {}

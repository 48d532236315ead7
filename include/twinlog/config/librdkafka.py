"""Java client properties -> the configuration of confluent-kafka (librdkafka) for one role."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from twinlog.config.client_properties import ClientProperties, connection_settings
from twinlog.config.connection import ConnectionSettings, SaslSettings, TlsSettings
from twinlog.config.secret import reveal
from twinlog.config.settings import ClusterSettings
from twinlog.errors import ConfigError

Role = Literal["consumer", "producer", "admin"]
Setting = str | int | bool

_SAME_FOR_ALL = {
    "metadata.max.age.ms": "metadata.max.age.ms",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "retry.backoff.max.ms": "retry.backoff.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "client.rack": "client.rack",
}
_CONSUMER = {
    "fetch.max.bytes": "fetch.max.bytes",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
    "fetch.min.bytes": "fetch.min.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "isolation.level": "isolation.level",
    "auto.offset.reset": "auto.offset.reset",
    "enable.auto.commit": "enable.auto.commit",
    "check.crcs": "check.crcs",
}
_PRODUCER = {
    "linger.ms": "linger.ms",
    "batch.size": "batch.size",
    "compression.type": "compression.type",
    "delivery.timeout.ms": "delivery.timeout.ms",
    "max.request.size": "message.max.bytes",
    "max.in.flight.requests.per.connection": "max.in.flight.requests.per.connection",
}
MAPPED: Mapping[str, Mapping[str, str]] = {
    "consumer": _SAME_FOR_ALL | _CONSUMER,
    "producer": _SAME_FOR_ALL | _PRODUCER,
    "admin": _SAME_FOR_ALL,
}
"""Tunables of a Java client that librdkafka has too, per role: Java's name to librdkafka's."""

# librdkafka refuses values outside its ranges; Java allows more.
_LIMITS: Mapping[str, tuple[int, int]] = {
    "socket.timeout.ms": (10, 300_000),
    "fetch.wait.max.ms": (0, 300_000),
    "fetch.min.bytes": (1, 100_000_000),
    "max.in.flight.requests.per.connection": (1, 5),
    "message.max.bytes": (1000, 1_000_000_000),
    "linger.ms": (0, 900_000),
}


def librdkafka(cluster: ClusterSettings, role: Role) -> dict[str, Setting]:
    """Return the configuration dict of confluent-kafka for one role of a cluster, secrets in the clear.

    Hand it to a client's constructor and nowhere else.  Raises ConfigError for what cannot be mapped.
    """
    properties: ClientProperties = getattr(cluster, role)
    connection = connection_settings(cluster.alias, properties, client_id=cluster.connection.client_id)
    return {**_tunables(properties, role), **security(connection)}


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
        result |= _SASL[connection.sasl.mechanism](connection.sasl)
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
        "sasl.mechanism": sasl.mechanism,
        "sasl.username": sasl.username,
        "sasl.password": reveal(sasl.password or ""),
    }


def _oauth(sasl: SaslSettings) -> dict[str, Setting]:
    if sasl.token_endpoint is None:
        principal, value = sasl.unsecured_claims[0]
        return {
            "sasl.mechanism": sasl.mechanism,
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principalClaimName={principal} principal={value}",
        }
    result: dict[str, Setting] = {
        "sasl.mechanism": sasl.mechanism,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": sasl.token_endpoint,
        "sasl.oauthbearer.client.id": sasl.username,
        "sasl.oauthbearer.client.secret": reveal(sasl.password or ""),
    }
    return result | ({"sasl.oauthbearer.scope": sasl.scope} if sasl.scope else {})


_SASL: Mapping[str, Callable[[SaslSettings], dict[str, Setting]]] = {
    "PLAIN": _user_and_password,
    "SCRAM-SHA-256": _user_and_password,
    "SCRAM-SHA-512": _user_and_password,
    "OAUTHBEARER": _oauth,
}


def _tunables(properties: ClientProperties, role: Role) -> dict[str, Setting]:
    result: dict[str, Setting] = {}
    for java, name in MAPPED[role].items():
        if java in properties:
            result[name] = _limited(name, java, reveal(properties[java]))
    if role == "producer":
        # Whatever the file says: what twinlog writes must not be lost or doubled by a retry.
        result |= {"acks": "all", "enable.idempotence": True}
    return result


def _limited(name: str, java: str, text: str) -> Setting:
    if name not in _LIMITS:
        return text
    low, high = _LIMITS[name]
    try:
        return min(max(int(text), low), high)
    except ValueError:
        raise ConfigError(f"{java}: is not a whole number", key=java) from None

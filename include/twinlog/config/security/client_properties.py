"""Turn the Java client properties of one cluster and role into settings for the relay and confluent-kafka.

Both come from one reading (`connection_settings`), so that the two libraries cannot disagree.  A property that cannot
be mapped is refused by key: a client that half understands its security settings is worse than none.
"""

from __future__ import annotations

import re

from twinlog.config.file.providers import Secret, quoted, reveal
from twinlog.config.security.connection import (
    ClientProperties,
    ConnectionSettings,
    SecurityProtocol,
    TlsSettings,
    text_of,
    wrong,
)
from twinlog.config.security.sasl import sasl_settings

# Java takes `PROTOCOL://host:port` too and ignores the protocol (ClientUtils.parseAndValidateAddresses).
_ADDRESS = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?(?:\[([0-9a-fA-F:%.]+)\]|([0-9a-zA-Z\-%._]+)):(\d{1,5})")

_REFUSED = {
    "ssl.engine.factory.class": "Java classes cannot run here",
    "sasl.login.class": "Java classes cannot run here",
    "security.providers": "Java classes cannot run here",
    "ssl.provider": "Java's security providers do not exist here",
}
"""Keys that change which peers are trusted, or how, in ways that cannot be followed."""


def connection_settings(
    alias: str, properties: ClientProperties, *, client_id: str = "twinlog"
) -> ConnectionSettings:
    """Return how the relay reaches a cluster, from the Java properties of one role.

    Raises ConfigError with the key in `data` for a property that cannot be followed.
    """
    for key, why in _REFUSED.items():
        if properties.get(key):
            raise wrong(key, f"cannot be used: {why}", "remove it")
    protocol = security_protocol(properties)
    return ConnectionSettings(
        alias=alias,
        bootstrap=bootstrap_addresses(properties),
        protocol=protocol,
        tls=_tls(properties) if protocol.tls else TlsSettings(),
        sasl=sasl_settings(properties) if protocol.sasl else None,
        client_id=client_id,
        rack=text_of(properties, "client.rack").strip(),
        connect_timeout_ms=_ms(properties, "socket.connection.setup.timeout.ms", 10_000),
        request_timeout_ms=_ms(properties, "request.timeout.ms", 30_000),
    )


def security_protocol(properties: ClientProperties) -> SecurityProtocol:
    """Return `security.protocol`, in any case; PLAINTEXT if it is not given."""
    written = properties.get("security.protocol", "PLAINTEXT")
    try:
        return SecurityProtocol(reveal(written).upper())
    except ValueError:
        what = f"{quoted(written)} is none of {', '.join(SecurityProtocol)}"
        raise wrong("security.protocol", what) from None


def bootstrap_addresses(properties: ClientProperties) -> tuple[tuple[str, int], ...]:
    """Return host and port of each bootstrap server, in the order written; IPv6 in brackets."""
    key = "bootstrap.servers"
    given = properties.get(key, "")
    written = [part.strip() for part in reveal(given).split(",") if part.strip()]
    if not written:
        raise wrong(key, "is missing", "set it to host:port,host:port")
    found: list[tuple[str, int]] = []
    for address in written:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[3]) < 65536:
            shown = given if isinstance(given, Secret) else address.rsplit("@", 1)[-1]
            raise wrong(key, f"{quoted(shown)} is not host:port")
        found.append((match[1] or match[2], int(match[3])))
    return tuple(dict.fromkeys(found))


def _from_stores(properties: ClientProperties) -> tuple[str | None, tuple[str, Secret] | None]:
    """Return the trusted certificates, and the own certificates and key; most clusters have no store.

    Reading stores is imported for a store only: it is a fifteenth of what a cycle imports.
    """
    if not any(key.startswith(("ssl.truststore.", "ssl.keystore.")) for key in properties):
        return None, None
    from twinlog.config.security import stores

    return stores.trusted_certificates(properties), stores.own_key(properties)


def _tls(properties: ClientProperties) -> TlsSettings:
    trusted, own = _from_stores(properties)
    key = "ssl.endpoint.identification.algorithm"
    algorithm = properties.get(key, "https")
    if reveal(algorithm).lower() not in {"", "https"}:
        raise wrong(key, f"{quoted(algorithm)} is neither https nor empty")
    return TlsSettings(
        ca_pem=trusted,
        certificate_pem=own[0] if own else None,
        key_pem=own[1] if own else None,
        verify_hostname=bool(reveal(algorithm)),
    )


def _ms(properties: ClientProperties, key: str, default: int) -> int:
    written = text_of(properties, key, str(default))
    if not written.isascii() or not written.isdigit() or int(written) == 0:
        raise wrong(key, "is not a number of ms")
    return int(written)

"""Find client properties that work but protect nothing: logins in clear, brokers not identified.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinlog.config.file.secret import Secret
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

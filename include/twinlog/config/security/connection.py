"""Reach and log in to one cluster, and to the schema registry beside it.

A connection is what both client libraries need of Java's client properties.

`twinlog.config.security.client_properties` makes these from the resolved properties.  They are picklable (they travel
to Spark tasks) and print no secret.  `${airflow:...}` values of a Spark job were looked up by the Airflow task that
started it, and are handed over in one variable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.config.file.providers import AirflowResolver, LookupFailedError, Secret, reveal
from twinlog.errors import ConfigError

ClientProperties = Mapping[str, str | Secret]
"""Java client properties of one role of a cluster."""


def text_of(properties: ClientProperties, key: str, default: str = "") -> str:
    """Return a property as plain text, also if it is secret: for where a client is configured."""
    return reveal(properties.get(key, default))


def wrong(key: str, what: str, hint: str = "") -> ConfigError:
    """Make the error for a property that cannot be followed."""
    return ConfigError(f"{key}: {what}", hint=hint, key=key)


class SecurityProtocol(StrEnum):
    """Kafka's four listener protocols."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """Say whether the socket is wrapped in TLS."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def sasl(self) -> bool:
        """Say whether a SASL exchange follows the connection."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """PEM texts, whatever store they came from (PEM, PKCS12 and JKS are converted when read).

    `ca_pem` None means the system's certificate store.  `verify_hostname` is false only for
    `ssl.endpoint.identification.algorithm=` (empty).
    """

    ca_pem: str | None = None
    certificate_pem: str | None = None
    key_pem: Secret | None = None
    key_password: Secret | None = None
    verify_hostname: bool = True


@dataclass(frozen=True, slots=True)
class TokenProvider:
    """A Python function that gives bearer tokens: its dotted name, and what it is called with, by keyword."""

    name: str
    options: tuple[tuple[str, Secret], ...] = ()


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """Say what a Kerberos login starts from: `keytab` with its `principal`, or else a ticket cache.

    Both are paths on each machine that logs in; an empty `ticket_cache` is the user's own.  `service` is the first part
    of the brokers' principals.
    """

    service: str
    principal: str = ""
    keytab: str = ""
    ticket_cache: str = ""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """One SASL login.  `mechanism` is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI (then `kerberos`).

    For OAUTHBEARER one of these gives the token: `token_endpoint` with client id (`username`), client secret
    (`password`) and `scope`; `token_file`, a path; `token_provider`; or an unsecured token's claims in `username`
    (development only, as Kafka's own login module).  `extensions` go to the broker beside the token (KIP-342).
    """

    mechanism: str
    username: str = ""
    password: Secret | None = None
    token_endpoint: str | None = None
    scope: str | None = None
    token_file: str | None = None
    token_provider: TokenProvider | None = None
    unsecured_claims: tuple[tuple[str, str], ...] = ()
    extensions: tuple[tuple[str, str], ...] = ()
    kerberos: KerberosSettings | None = None

    @property
    def by_callback(self) -> bool:
        """Say whether a client library has to ask twinlog for the token."""
        return self.token_provider is not None or self.token_file is not None


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Everything a relay connection needs to know about one cluster.

    `alias` is for messages.  Times are in ms.  `rack` is the `client.rack` of a consumer, or empty.
    """

    alias: str
    bootstrap: tuple[tuple[str, int], ...]
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings = field(default_factory=TlsSettings)
    sasl: SaslSettings | None = None
    client_id: str = "twinlog"
    rack: str = ""
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 30_000

    @property
    def holds_secrets(self) -> bool:
        """Say whether a reader of these settings could log in with them."""
        sasl = self.sasl
        if sasl is not None and (
            sasl.password is not None or (sasl.token_provider and sasl.token_provider.options)
        ):
            return True
        return self.tls.key_pem is not None


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster of the file.

    `consumer`, `producer` and `admin` are the Java client properties of that role after MM2's precedence
    (precedence.py), secrets wrapped.  `twinlog.config.security.librdkafka.librdkafka(cluster, role)` makes
    confluent-kafka's configuration from them; `connection` is the same for the relay's own sockets.
    """

    alias: str
    bootstrap_servers: str
    connection: ConnectionSettings
    consumer: ClientProperties = field(default_factory=dict)
    producer: ClientProperties = field(default_factory=dict)
    admin: ClientProperties = field(default_factory=dict)


HANDED_OVER = "TWINLOG_AIRFLOW_CONNECTIONS"


def handed_over(environ: Mapping[str, str] = os.environ) -> AirflowResolver | None:
    """Return the resolver in a job that an Airflow task started, else None."""
    text = environ.get(HANDED_OVER)
    if text is None:
        return None
    answers = json.loads(text)

    def look_up(conn_id: str, field: str) -> str:
        try:
            return str(answers[conn_id][field])
        except KeyError as error:
            raise LookupFailedError(
                f"the task that started this job did not look up {conn_id} {field}"
            ) from error

    return look_up


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """One schema registry that speaks Confluent's REST API.

    `alias` is its cluster's, for messages.  `urls` are asked in their order until one answers.  At most one of
    `user_info` (`name:password`) and `token` is given.  `ca`, `certificate` and `key` are paths of PEM files, "" for
    the system's certificates and for no certificate of one's own.
    """

    alias: str
    urls: tuple[str, ...] = field(repr=False)
    user_info: Secret | None = None
    token: Secret | None = None
    ca: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def name(self) -> str:
        """Return how messages call it."""
        return f"the schema registry of {self.alias}"


@dataclass(frozen=True, slots=True)
class Registries:
    """The schema registries of a flow's two clusters."""

    source: RegistrySettings
    target: RegistrySettings

"""Turn client properties into ClusterSettings: of a cluster by itself, or of one end of a flow."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.config.file.origin import Findings, Properties, is_elsewhere
from twinlog.config.file.precedence import ROLES, client_config
from twinlog.config.file.providers import Providers, Secret, reveal
from twinlog.config.flow.reader import Reader
from twinlog.config.security.client_properties import connection_settings
from twinlog.config.security.connection import (
    ClientProperties,
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.config.security.exposure import exposures
from twinlog.config.security.librdkafka import tunables
from twinlog.errors import ConfigError

PRODUCT = "twinlog"
ADDRESSES = "bootstrap.servers"


def cluster_by_itself(
    alias: str, raw: Properties, providers: Providers, findings: Findings
) -> ClusterSettings:
    """Return the settings by which `check` and `status` reach a cluster: MirrorClientConfig's rules."""
    roles = {role: client_config(raw, alias, role) for role in ROLES}
    return cluster_settings(alias, roles, "admin", PRODUCT, Reader({}, providers, findings))


def cluster_settings(
    alias: str,
    roles: Mapping[str, Properties],
    relay_role: str,
    client_id: str,
    reader: Reader,
) -> ClusterSettings:
    """Return the settings of one cluster; the relay connects with the properties of `relay_role`.

    Each role is tried, so that reading the file finds a mistake in any of them.  A role with a value that is known
    only elsewhere is judged there.
    """
    properties = {role: reader.client(f"{alias} {role}", roles[role]) for role in ROLES}
    connections: dict[str, ConnectionSettings] = {}
    for role in ROLES:
        prefix = properties[role].get("client.id")
        name = f"{reveal(prefix)}|{client_id}" if prefix else client_id
        try:
            tunables(properties[role])
            connections[role] = _connection(alias, properties[role], roles[role], name, reader.findings)
            _warn_of_exposures(connections[role], properties[role], roles[role], reader.findings)
        except ConfigError as error:
            if reader.knows(roles[role]):
                _keep(error, alias, roles[role], reader.findings)
            connections[role] = ConnectionSettings(alias, bootstrap=())
    return ClusterSettings(
        alias=alias,
        bootstrap_servers=reveal(properties[relay_role].get("bootstrap.servers", "")),
        connection=connections[relay_role],
        **properties,
    )


def _warn_of_exposures(
    connection: ConnectionSettings,
    properties: Mapping[str, str | Secret],
    written: Properties,
    findings: Findings,
) -> None:
    for found in exposures(connection, properties):
        findings.warn(written[found.key].origin, found.message, found.hint)


def _connection(
    alias: str, properties: ClientProperties, written: Properties, client_id: str, findings: Findings
) -> ConnectionSettings:
    """Return how one client connects; a missing value of another machine's file is left out if possible.

    Raises as `connection_settings`.
    """
    here = dict(properties)
    if findings.elsewhere and here.get(ADDRESSES) == Secret(
        ""
    ):  # by reference: the other properties can be judged
        here[ADDRESSES] = "elsewhere:9092"
    while True:
        try:
            return connection_settings(alias, here, client_id=client_id)
        except ConfigError as error:
            if not (findings.elsewhere and is_elsewhere(error)):
                raise
            _keep(error, alias, written, findings)
            del here[str(error.data["key"])]


def _keep(error: ConfigError, alias: str, properties: Properties, findings: Findings) -> None:
    """Turn a refusal by key into a finding with file and line, if the key is written."""
    key = str(error.data.get("key", ""))
    written = properties.get(key)
    message = error.message.removeprefix(f"{key}: ")
    if written is None or not written.origin.line:
        findings.error(findings.missing(), f"{alias}.{key} {message}", error.hint)
    elif not findings.blames(written.origin):
        # The line may have another key (`A.ssl.truststore.location`) than the one the client sees.
        findings.unresolved(written.origin, ConfigError(message, hint=error.hint, **error.data))

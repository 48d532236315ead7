"""Build the client library's properties for one cluster and one role."""

from __future__ import annotations

from typing import Any

from twinlog.config.security.connection import ClusterSettings
from twinlog.config.security.librdkafka import Role, librdkafka, security


def client_properties(cluster: ClusterSettings, role: Role = "admin") -> dict[str, Any]:
    """Build the properties that a confluent-kafka client of this role starts from.

    Settings made by hand may have a connection and no Java properties: then the connection is used alone.
    """
    java = getattr(cluster, role)
    return dict(librdkafka(cluster, role) if java else security(cluster.connection))

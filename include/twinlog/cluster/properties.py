"""The client library's properties for one cluster."""

from __future__ import annotations

from typing import Any

from twinlog.config.settings import ClusterSettings


def client_properties(cluster: ClusterSettings) -> dict[str, Any]:
    """Build what every confluent-kafka client of `cluster` starts from."""
    return {"bootstrap.servers": cluster.bootstrap_servers}

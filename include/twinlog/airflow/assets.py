"""The asset event that tells other Dags a remote cluster has new records."""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset


def remote_cluster(alias: str) -> Asset:
    """Return the asset of one target cluster, `twinlog://<alias>`.

    One per cluster, not per flow: what is scheduled on it wants to know that a cluster has changed.  The
    event's extra says by which flow, with how many records, and how many are still to come.
    """
    return Asset(name=f"twinlog {alias}", uri=f"twinlog://{quote(alias, safe='')}", group="twinlog")

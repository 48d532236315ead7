"""The asset events that tell other Dags what is new on a remote cluster: records, and positions of groups.

Airflow sends them of tasks that are a success only: an event says that something went well, none says nothing.
"""

from __future__ import annotations

from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias


def remote_cluster(alias: str) -> Asset:
    """Return the asset of one target cluster, `twinlog://<alias>`.

    One per cluster, not per flow: what is scheduled on it wants to know that a cluster has changed.  An event
    comes of a cycle that went well as a whole; its extra says by which flow, with how many records, and how many
    are still to come.
    """
    return Asset(name=f"twinlog {alias}", uri=f"twinlog://{quote(alias, safe='')}", group="twinlog")


def groups_synced(flow: str) -> AssetAlias:
    """Return what stands for `remote_groups` in a flow's Dag: an event comes only when there is something to tell."""
    return AssetAlias(name=f"twinlog {flow} groups", group="twinlog")


def remote_groups(alias: str) -> Asset:
    """Return the asset of the groups of one target cluster, `twinlog://<alias>/groups`.

    Its event says that positions of groups were committed there; the extra says by which flow, and of which groups.
    """
    uri = f"twinlog://{quote(alias, safe='')}/groups"
    return Asset(name=f"twinlog {alias} groups", uri=uri, group="twinlog")


def readiness(alias: str) -> Asset:
    """Return the asset of a cluster that is ready to take over, `twinlog://<alias>/readiness`.

    An event comes when the gate says yes; a no fails its task.
    """
    return Asset(
        name=f"twinlog {alias} readiness", uri=f"twinlog://{quote(alias, safe='')}/readiness", group="twinlog"
    )

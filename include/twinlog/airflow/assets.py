"""The asset events that tell other Dags about news on a remote cluster: records, and positions of groups.

Airflow sends events only for successful tasks: an event says that something went well; its absence says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetAlias


def remote_cluster(alias: str) -> Asset:
    """Return the asset of one target cluster, `twinlog://<alias>`.

    There is one per cluster, not per flow: a Dag scheduled on it needs to know that the cluster has changed.  An event
    follows a cycle that went well as a whole; its extra names the flow, the number of records, and how many are still
    to come.
    """
    return _asset(alias, alias)


def _asset(name: str, *path: str) -> Asset:
    uri = f"twinlog://{'/'.join(quote(part, safe='') for part in path)}"
    return Asset(name=f"twinlog {name}", uri=uri, group="twinlog")


def groups_synced(flow: str) -> AssetAlias:
    """Return the placeholder of `remote_groups` in a flow's Dag: an event is sent only if there is news."""
    return AssetAlias(name=f"twinlog {flow} groups", group="twinlog")


def remote_groups(alias: str) -> Asset:
    """Return the asset of the groups of one target cluster, `twinlog://<alias>/groups`.

    Its event says that positions of groups were committed there; the extra names the flow and the groups.
    """
    return _asset(f"{alias} groups", alias, "groups")


def readiness(alias: str) -> Asset:
    """Return the asset of a cluster that is ready to take over, `twinlog://<alias>/readiness`.

    An event is sent if the gate says yes; a no fails its task.
    """
    return _asset(f"{alias} readiness", alias, "readiness")


def drilled(source: str, target: str) -> Asset:
    """Return the asset of a flow whose failover was drilled, `twinlog://<target>/drill/<source>`.

    Its event says that a drill passed; the extra names the run, RTO, RPO, and the groups that were tried.
    """
    return _asset(f"drill of {source}->{target}", target, "drill", source)


DRILLED, FAILED_OVER, WENT_HOME = (
    AssetAlias(name=f"twinlog {what}", group="twinlog") for what in ("drill", "failover", "failback")
)
"""The placeholders of `drilled`, `failed_over` and `failed_back` in Dags that are not of one flow."""


def failed_over(source: str, target: str) -> Asset:
    """Return the asset of a flow that was failed over, `twinlog://<target>/failover/<source>`.

    Its event says that the target is promoted; the extra names the run, who approved it, its cost and its evidence.
    """
    return _asset(f"failover of {source}->{target}", target, "failover", source)


def failed_back(source: str, target: str) -> Asset:
    """Return the asset of a flow whose clients went home, `twinlog://<source>/failback/<target>`.

    Its event says that the source is promoted again; the extra is as that of a failover.
    """
    return _asset(f"failback of {source}->{target}", source, "failback", target)


def with_outlet(arguments: dict[str, Any], flow: Any, asset_of: Callable[[str], Asset]) -> dict[str, Any]:
    """Return the arguments of an operator with one more outlet, the asset of the flow's target.

    A flow whose name is a template, or another task's result, has none: Airflow has to know outlets before it renders.
    """
    _, arrow, target = flow.partition("->") if isinstance(flow, str) else ("", "", "")
    if not arrow or "{" in flow:
        return arguments
    return {**arguments, "outlets": [*(arguments.get("outlets") or ()), asset_of(target)]}

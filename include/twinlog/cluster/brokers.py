"""Read a cluster's id and how many brokers it has."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.cluster.refusals import Asked
from twinlog.cluster.session import REQUEST_SECONDS, Session


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster's id, and how many brokers are registered with it."""

    cluster_id: str
    brokers: int


def describe_cluster(session: Session) -> ClusterDescription:
    """Ask any broker about its cluster; this is the cheapest proof that the cluster can be reached."""
    future = session.admin.describe_cluster(request_timeout=REQUEST_SECONDS)
    answer = session.answer(
        future, Asked(session.alias, "describe", "the cluster", "DESCRIBE on the cluster")
    )
    return ClusterDescription(answer.cluster_id or "", len(answer.nodes))

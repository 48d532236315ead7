"""Try what an application may do on the target, with its own login: a right that is missing shows before the day.

Nothing is committed, and the application's group is not joined: it may be at work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from twinlog.cluster.kafka import KafkaCluster
from twinlog.cluster.permissions.needs import Kind, Need, Resource, principal
from twinlog.config.flow.load import load_client
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ClusterSettings
from twinlog.drill.reading import READ_SECONDS, First, first_records_from
from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition

Starts = Mapping[TopicPartition, int]
Application = Callable[[str, Starts], str]
"""Reads as the application of a group from where it would go on; returns its user, "" if no login is given."""


def application(flow: FlowSettings) -> Application:
    """Return what reads with the logins of `twinlog.drill.clients`."""
    return lambda group, starts: read_as(flow, group, starts)


def login_file(flow: FlowSettings, group: str) -> Path | None:
    """Return the file with the login of a group's application, None if there is none."""
    folder, name = flow.failover.drill_clients, f"{group}.properties"
    if folder is None or Path(name).name != name:
        return None
    path = folder / name
    with suppress(OSError):  # a group's name may be longer than any file's
        return path if path.is_file() else None
    return None


def read_as(flow: FlowSettings, group: str, starts: Starts) -> str:
    """Read the first record of each partition as the application of the group, and see that it may use its group.

    Return the user, "" if no login is given.  Raises ConfigError for a file that cannot be used, ClusterRefused if the
    target lets the user do less, and ClusterUnreachable.
    """
    path = login_file(flow, group)
    if path is None:
        return ""
    cluster = load_client(flow.target, path)
    user = principal(cluster)
    _require_group(cluster, group, user)
    require_met(starts, first_records_from(cluster, group, starts, user), user, flow.target.alias)
    return user


def _require_group(cluster: ClusterSettings, group: str, user: str) -> None:
    need = Need(cluster.alias, Resource(Kind.GROUP, group), ("READ",), "join its group")
    found = KafkaCluster(cluster).rights([need]).get((cluster.alias, need.resource))
    if found is not None and "READ" in found.denied:
        raise ClusterRefused(
            f"{user} may not READ group {group} of {cluster.alias}",
            hint=f"grant READ on the group: its application could not join it on {cluster.alias}",
            code="unauthorised",
            cluster=cluster.alias,
        )


def require_met(starts: Starts, met: Mapping[TopicPartition, First], user: str, alias: str) -> None:
    """Raise ClusterRefused unless every partition had a record, or its end, for the user.  Pure."""
    for at in starts:
        first = met.get(at)
        why = f"no record within {READ_SECONDS:.0f} s" if first is None else first.error
        if why:
            raise ClusterRefused(
                f"{user} cannot read {at.topic}-{at.partition} of {alias}: {why}",
                hint="look at the brokers, and at the ACLs of the topic",
                cluster=alias,
            )

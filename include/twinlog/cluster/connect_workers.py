"""What the workers of a Kafka Connect group are running, MirrorMaker's own in dedicated mode included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.errors import ClusterRefused
from twinlog.formats.connect_assignment import parse_assignment
from twinlog.relay import kafka_python
from twinlog.relay.brokers import Brokers
from twinlog.relay.error_codes import AUTHORIZATION, Code, error_for


@dataclass(frozen=True, slots=True)
class ConnectWorkers:
    """`members` workers are in the group; `tasks` counts the tasks of each connector they know of."""

    members: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)


def connect_workers(brokers: Brokers, group: str) -> ConnectWorkers:
    """Ask what a worker group runs; no members when it does not exist, or all its workers have stopped.

    Raises ClusterRefused where the group may not be described, FormatError for a group that is not Connect's.
    """
    connections, failed = brokers.group_coordinators([group])
    code = failed.get(group, 0)
    if not code:
        answer = connections[group].call(
            kafka_python.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=False
        )
        described = answer.groups[0]
        code = described.error_code
        if not code:
            tasks: Counter[str] = Counter()
            for member in described.members:
                tasks.update(parse_assignment(bytes(member.member_assignment or b"")))
            return ConnectWorkers(len(described.members), dict(tasks))
    if code == Code.GROUP_ID_NOT_FOUND:
        return ConnectWorkers()
    if code in AUTHORIZATION:
        alias = brokers.settings.alias
        raise ClusterRefused(
            f"{alias} does not allow this user to describe group {group}, so nobody can say whether its workers run",
            hint=f"grant DESCRIBE on group {group}",
            code="unauthorised",
            cluster=alias,
            group=group,
        )
    raise error_for(code, f"the question who is in group {group}", brokers.settings.alias)

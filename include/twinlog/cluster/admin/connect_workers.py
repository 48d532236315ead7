"""Read what the workers of a Kafka Connect group are running, MirrorMaker's own in dedicated mode included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlog.errors import ClusterRefused, TransientError
from twinlog.formats.mm2.connect_offset import parse_assignment
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import AUTHORIZATION, COORDINATOR_MOVED, Code, error_for
from twinlog.protocol.retry import until

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ConnectWorkers:
    """`members` workers are in the group; `tasks` counts the tasks of each connector they know of."""

    members: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)


def connect_workers(brokers: Brokers, group: str) -> ConnectWorkers:
    """Read what a worker group runs; no members if it does not exist, or if all its workers have stopped.

    Raises ClusterRefused if the group may not be described, FormatError for a group that is not Connect's.
    """
    alias = brokers.settings.alias
    code, described = _described(brokers, group)
    if code == Code.GROUP_ID_NOT_FOUND:
        return ConnectWorkers()
    if code in AUTHORIZATION:
        raise ClusterRefused(
            f"{alias} does not allow this user to describe group {group}, so nobody can say whether its workers run",
            hint=f"grant DESCRIBE on group {group}",
            code="unauthorised",
            cluster=alias,
            group=group,
        )
    if code:
        raise error_for(code, f"the question who is in group {group}", alias)
    tasks: Counter[str] = Counter()
    for member in described.members:
        tasks.update(parse_assignment(bytes(member.member_assignment or b"")))
    return ConnectWorkers(len(described.members), dict(tasks))


def _described(brokers: Brokers, group: str) -> tuple[int, Any]:
    """Ask the group's coordinator, again while it is changing; return the error code and the answer."""

    def ask() -> tuple[int, Any] | None:
        connections, failed = brokers.group_coordinators([group])
        if group in failed:
            return None if failed[group] in COORDINATOR_MOVED else (failed[group], None)
        answer = connections[group].call(
            kafka_python.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=False
        )
        code = int(answer.groups[0].error_code)
        return None if code in COORDINATOR_MOVED else (code, answer.groups[0])

    def give_up() -> TransientError:
        return TransientError(
            f"group {group} on {brokers.settings.alias} has no coordinator",
            hint="try again",
            code="unsettled",
        )

    return until(ask, give_up, seconds=PATIENCE_SECONDS, first_seconds=0.05)

"""Read and write the seats of a flow's processes: one leads and copies, the others stand by (docs/decisions/0024).

A seat is an offset that the group `__twinlog-leader.A->B` has committed on the target for a partition of the progress
topic: seat 0 is the leader's, the others are for those that stand by.  The offset counts how often the seat was
written, the metadata says by whom.  Nothing is appended to a topic of twinlog's, and a write is refused unless the
seat still has the count that its writer saw.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from twinlog import clock
from twinlog.cluster.admin.groups import OFFSET_MOVED, OffsetChange
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.jsonable import from_json
from twinlog.kafka_types import TopicPartition

LEADER = 0
"""Number of the leader's seat."""

SHOWN_SECONDS = 30.0
"""How long a seat that is not written any more is shown to people, by the clock of its writer."""


class Role(StrEnum):
    """Name what the process in a seat does; one that is `gone` left it in order."""

    LEADS = "leads"
    STANDS_BY = "stands-by"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Member:
    """A process that leads or stands by; `config` is the digest of its file, `at_ms` its own clock (epoch ms)."""

    run_id: str
    host: str
    pid: int
    version: str
    config: str
    role: Role = Role.STANDS_BY
    at_ms: int = 0

    @property
    def place(self) -> str:
        """Return where it runs, for people."""
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class Seat:
    """A seat, how often it was written, and by whom last."""

    number: int
    count: int
    member: Member


def group_of(flow: FlowSettings) -> str:
    """Return the group of a flow's seats; MM2's default `groups.exclude` leaves it out, as it begins with `__`."""
    return f"__twinlog-leader.{flow.name}"


def read_seats(flow: FlowSettings, target: Cluster) -> Mapping[int, Seat]:
    """Return the seats that were ever taken, by number; raises ClusterRefused without READ on the group."""
    group = group_of(flow)
    committed = target.committed_offsets([group]).require()[group]
    found = (
        Seat(it.partition, at.offset, member)
        for it, at in committed.items()
        if it.topic == flow.offsets_topic and (member := _member(at.metadata)) is not None
    )
    return {seat.number: seat for seat in found}


def write_seat(
    flow: FlowSettings, target: Cluster, number: int, count: int | None, member: Member
) -> Seat | None:
    """Write a seat whose count is still `count` (None: never written); return it as it is now, None if it was not."""
    group = group_of(flow)
    seat = Seat(number, 0 if count is None else count + 1, replace(member, at_ms=clock.now_ms()))
    change = OffsetChange(seat.count, count, json.dumps(asdict(seat.member)))
    answers = target.alter_offsets({group: {TopicPartition(flow.offsets_topic, number): change}})
    if any(error.code == OFFSET_MOVED for error in answers.refused.values()):
        return None
    answers.require()
    return seat


def shown(seats: Mapping[int, Seat], now_ms: int) -> tuple[Member, ...]:
    """Return the members to show to people: the leader first, without those that left or were not heard of.  Pure."""
    return tuple(
        seat.member
        for _, seat in sorted(seats.items())
        if seat.member.role is not Role.GONE and now_ms - seat.member.at_ms <= SHOWN_SECONDS * 1000
    )


def _member(metadata: str) -> Member | None:
    """Read a member; None for what no twinlog of this format wrote."""
    try:
        values = from_json(metadata)
        return Member(**{**values, "role": Role(values["role"])})
    except (ValueError, TypeError, KeyError):
        return None

"""Decide who leads a flow, from how the leader's seat changes while this process watches it.  Pure.

No clock of another machine counts: a leader is silent if its seat stayed the same for `SILENT_SECONDS` of this
process' own clock, during which the seat could be read.  A seat that cannot be read says nothing of its leader.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlog.state.seats import Member, Role, Seat

RENEW_SECONDS = 0.5
"""Pause between two writes of a seat by the process in it."""

SILENT_SECONDS = 2.4
"""How long a leader's seat stays the same before another process takes it."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The leader's seat as this process has watched it, unchanged since `since` (monotonic seconds)."""

    since: float
    count: int | None = None
    member: Member | None = None

    def sees(self, seat: Seat | None, now: float) -> Watch:
        """Return the watch after the seat was read at `now`; None: nobody ever took it."""
        count, member = (None, None) if seat is None else (seat.count, seat.member)
        return self if (count, member) == (self.count, self.member) else Watch(now, count, member)

    def blind(self, now: float) -> Watch:
        """Return the watch after the seat could not be read: the leader has all of its time again."""
        return replace(self, since=now)

    def may_take(self, now: float) -> bool:
        """Say whether this process may take the seat: nobody has it, or its leader left or is silent."""
        if self.member is None or self.member.role is Role.GONE:
            return True
        return now - self.since >= SILENT_SECONDS


def differences(leader: Member, own: Member) -> str:
    """Say in which way a leader differs from this process; "" if in none."""
    found = []
    if leader.version != own.version:
        found.append(f"version {leader.version} instead of {own.version}")
    if leader.config != own.config:
        found.append("another configuration file")
    return " and ".join(found)


def free_seat(seats: dict[int, Seat], places: int, alive: frozenset[int]) -> int | None:
    """Choose a seat to stand by in: never taken, left, or of a process not among the `alive`; None if all are full."""
    return next(
        (
            number
            for number in range(1, places)
            if number not in seats or seats[number].member.role is Role.GONE or number not in alive
        ),
        None,
    )

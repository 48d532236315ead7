"""Lead a flow, or stand by until its leader is gone: any number of processes may follow one flow (docs/decisions/0024).

The seats only decide who asks for the flow.  What may be written is decided by the fence alone: if two processes ever
take themselves for the leader, the second fence ends the first one's lanes, and the first one stands by.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from twinlog import clock
from twinlog.cluster.api import Cluster, Clusters, open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, TransientError
from twinlog.state.seats import LEADER, Member, Role, Seat, group_of, read_seats, shown, write_seat

RENEW_SECONDS = 0.5
"""Pause between two writes of a seat by the process in it."""

SILENT_SECONDS = 2.4
"""How long a leader's seat stays the same before another process takes it."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The leader's seat as this process has watched it, unchanged since `since` (monotonic seconds).

    No clock of another machine counts: a leader is silent if its seat stayed the same for `SILENT_SECONDS` of this
    process' own clock, during which the seat could be read.  A seat that cannot be read says nothing of its leader.
    """

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


POLL_SECONDS = 0.2
BLIND_SECONDS = 5.0
"""How often a process that stands by reads the seats, and at least while it cannot."""

TICK_SECONDS = 0.1
"""How often a leader checks whether it is to leave."""

AGREE_SECONDS = 0.2
"""How long a seat just taken has to stay one's own: two that take it at once see who was last."""

HAND_OVER_SECONDS = 8.0
"""How long a leader that ends copies on, until another one has taken the flow."""

Say = Callable[[str], None]

log = logging.getLogger(__name__)


@contextmanager
def _noted(flow: str) -> Iterator[None]:
    """Let no error end the thread that renews a seat: it is what hears a signal."""
    try:
        yield
    except (TransientError, ClusterRefused) as error:
        log.debug("%s: the leader's seat was not written: %s", flow, error)
    except Exception:
        log.exception("%s: the leader's seat was not written", flow)


def live_leader(flow: FlowSettings, target: Cluster) -> Member | None:
    """Return the process that leads a flow, seen to renew its seat; None if there is none, or if none may be seen."""
    deadline = time.monotonic() + SILENT_SECONDS
    try:
        first = read_seats(flow, target).get(LEADER)
        seat = first
        while seat is not None and seat.member.role is Role.LEADS and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            seat = read_seats(flow, target).get(LEADER)
            if seat is not None and seat != first and seat.member.role is Role.LEADS:
                return seat.member
    except ClusterRefused:
        pass
    return None


@dataclass(slots=True)
class Leadership:
    """The part that this process has in a flow.

    `count` is that of the leader's seat while this process has it.  `led` counts how often it took the seat.
    `without_seats` says that the target does not let this user use the seats: then it leads, as alone.  `leaving` is
    set by a signal, `ready_to_stop` once lanes may be ended: at once, or when nobody took over in time.
    """

    flow: FlowSettings
    own: Member
    say: Say
    leaving: threading.Event
    count: int | None = None
    led: int = 0
    without_seats: bool = False
    ready_to_stop: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _renewing: threading.Thread | None = None

    def stand_by(self, clusters: Clusters, places: int, until: float) -> bool:
        """Wait until this process leads; return False if it is to end before, at `until` (monotonic) or by a signal.

        A target that cannot be reached is waited for.  Whoever leads is told to `say`, once.
        """
        watch, told, pause = Watch(time.monotonic()), "", POLL_SECONDS
        seat: Seat | None = None
        next_beat = 0.0
        try:
            while not self.leaving.is_set() and time.monotonic() < until:
                try:
                    seats = dict(read_seats(self.flow, clusters.target))
                    watch, pause = watch.sees(seats.get(LEADER), time.monotonic()), POLL_SECONDS
                    if watch.may_take(time.monotonic()):
                        if self._take(clusters, watch):
                            return True
                        continue
                    told = self._tell(watch.member, told)
                    if time.monotonic() >= next_beat:
                        next_beat = time.monotonic() + RENEW_SECONDS
                        seat = self._sit(clusters, seats, seat, places)
                except ClusterRefused as error:
                    self.say(
                        f"{self.flow.name}: cannot stand by, and leads as if alone: {error.message}; grant READ on"
                        f" group {group_of(self.flow)}, or a second process takes the flow from this one"
                    )
                    self.without_seats = True
                    return True
                except TransientError as error:
                    watch = watch.blind(time.monotonic())
                    told, pause = self._tell_blind(error, told), min(2 * pause, BLIND_SECONDS)
                self.leaving.wait(pause)
            return False
        finally:
            self._leave_seat(clusters, seat)

    def _take(self, clusters: Clusters, watch: Watch) -> bool:
        """Take the leader's seat, and say whether it stayed this process'."""
        leads = replace(self.own, role=Role.LEADS)
        taken = write_seat(self.flow, clusters.target, LEADER, watch.count, leads)
        if taken is None:
            return False
        time.sleep(AGREE_SECONDS)
        seat = read_seats(self.flow, clusters.target).get(LEADER)
        if seat is None or seat.count != taken.count or seat.member.run_id != self.own.run_id:
            return False
        self.count, self.led = taken.count, self.led + 1
        if watch.member is not None:
            why = "which left" if watch.member.role is Role.GONE else "which is silent"
            self.say(f"{self.flow.name}: leads now, after {watch.member.place}, {why}")
        return True

    def _sit(self, clusters: Clusters, seats: dict[int, Seat], seat: Seat | None, places: int) -> Seat | None:
        """Write the seat in which this process stands by, so that others see it."""
        if seat is None:
            alive = {member.run_id for member in shown(seats, clock.now_ms())}
            taken = frozenset(number for number, it in seats.items() if it.member.run_id in alive)
            number = free_seat(seats, places, taken)
            if number is None:
                return None
            count = seats[number].count if number in seats else None
        else:
            number, count = seat.number, seat.count
        return write_seat(self.flow, clusters.target, number, count, self.own)

    def _leave_seat(self, clusters: Clusters, seat: Seat | None) -> None:
        if seat is None:
            return
        with suppress(TransientError, ClusterRefused):  # that it is not written says the same a little later
            gone = replace(self.own, role=Role.GONE)
            write_seat(self.flow, clusters.target, seat.number, seat.count, gone)

    def _tell(self, leader: Member | None, told: str) -> str:
        if leader is None:
            return told
        unlike = differences(leader, self.own)
        line = f"{self.flow.name}: stands by: {leader.place} leads" + (f", with {unlike}" if unlike else "")
        if line != told:
            self.say(line)
        return line

    def _tell_blind(self, error: TransientError, told: str) -> str:
        line = f"{self.flow.name}: stands by and cannot see who leads: {error.message}"
        if line != told:
            self.say(line)
        return line

    def __enter__(self) -> Leadership:
        """Renew the leader's seat from now on, over connections of its own."""
        self._over.clear()
        self.ready_to_stop.clear()
        self._renewing = threading.Thread(target=self._renew, daemon=True)
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the leader's seat, if it is still this process'; whoever stands by takes it at once."""
        self._over.set()
        if self._renewing is not None:
            self._renewing.join()
        if self.count is None:
            return
        with open_clusters(self.flow) as clusters:
            self._leave_seat(clusters, Seat(LEADER, self.count, self.own))
        self.count = None

    def handed_on(self, clusters: Clusters) -> bool:
        """Say whether another process has the leader's seat: it, and no driver of another kind, took the flow."""
        seat = read_seats(self.flow, clusters.target).get(LEADER)
        return seat is not None and seat.member.run_id != self.own.run_id

    @property
    def lost(self) -> bool:
        """Say whether another process has the leader's seat."""
        return self.count is None and not self.without_seats

    def _renew(self) -> None:
        """Renew the leader's seat until the lanes have ended; then, or if it is lost for long, they may be stopped."""
        with open_clusters(self.flow) as clusters:
            next_write = 0.0
            while not self._over.wait(TICK_SECONDS):
                if self.leaving.is_set():
                    self._hand_over(clusters)
                    break
                if self.lost:  # the fence of the process that took it ends the lanes
                    break
                if not self.without_seats and time.monotonic() >= next_write:
                    next_write = time.monotonic() + RENEW_SECONDS
                    # If it fails, others may find this one silent, and the fence decides.
                    with _noted(self.flow.name):
                        self._write(clusters, replace(self.own, role=Role.LEADS))
        self._over.wait(HAND_OVER_SECONDS)
        self.ready_to_stop.set()

    def _write(self, clusters: Clusters, member: Member) -> None:
        """Write the leader's seat; it is lost if another process has written it meanwhile.

        A write whose answer was lost counts: then the seat is still this process' own.
        """
        count = self.count
        if count is None:
            return
        written = write_seat(self.flow, clusters.target, LEADER, count, member)
        if written is not None:
            self.count = written.count
            return
        seat = read_seats(self.flow, clusters.target).get(LEADER)
        own = seat is not None and seat.member.run_id == self.own.run_id
        self.count = seat.count if seat is not None and own else None

    def _hand_over(self, clusters: Clusters) -> None:
        """Leave the seat while the lanes still copy, if another process stands by: its fence ends them."""
        if not self.without_seats:
            with _noted(self.flow.name):
                seats = read_seats(self.flow, clusters.target)
                if len(shown(seats, clock.now_ms())) > 1:
                    self._write(clusters, replace(self.own, role=Role.GONE))
                    self.count = None
                    return
        self.ready_to_stop.set()

"""Leading and standing by, over a cluster in memory."""

import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from itertools import count

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.api import Clusters
from twinlog.errors import ClusterRefused, ClusterUnreachable
from twinlog.follow import leading
from twinlog.follow.leading import Leadership, live_leader
from twinlog.state.seats import LEADER, Member, Role, group_of, read_seats, write_seat

OWN = Member("own", "here", 1, "0.1.0", "abc")
OTHER = Member("other", "there", 2, "0.2.0", "abc", Role.LEADS)


@pytest.fixture
def clusters(monkeypatch) -> Clusters:
    monkeypatch.setattr(leading, "AGREE_SECONDS", 0.0)
    monkeypatch.setattr(leading, "POLL_SECONDS", 0.0)
    return Clusters(FakeCluster("A"), FakeCluster("B"))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def own(flow, said) -> Leadership:
    return Leadership(flow, OWN, said.append, threading.Event())


@pytest.fixture
def seconds(monkeypatch) -> None:
    """Let the clock of the process jump by half a second whenever it is read."""
    ticks = count()
    monkeypatch.setattr(leading.time, "monotonic", lambda: next(ticks) / 2)


def seat(flow, clusters: Clusters, number: int = LEADER) -> tuple[str, Role]:
    member = read_seats(flow, clusters.target)[number].member
    return member.run_id, member.role


class TestStandBy:
    """What a process does before it leads."""

    def test_the_first_one_leads_at_once(self, flow, clusters, own) -> None:
        """Its seat says so."""
        assert own.stand_by(clusters, 25, time.monotonic() + 60)
        assert (("own", Role.LEADS), 1, False) == (seat(flow, clusters), own.led, own.lost)

    def test_a_leader_that_left_is_followed_at_once(self, flow, clusters, own, said) -> None:
        """And named."""
        write_seat(flow, clusters.target, LEADER, None, replace(OTHER, role=Role.GONE))
        assert own.stand_by(clusters, 25, time.monotonic() + 60)
        assert ["A->B: leads now, after process 2 on there, which left"] == said

    @pytest.mark.usefixtures("seconds")
    def test_a_silent_leader_is_followed(self, flow, clusters, own, said) -> None:
        """Meanwhile it stands by in a seat of its own, says so once, and says what differs."""
        write_seat(flow, clusters.target, LEADER, None, OTHER)
        assert own.stand_by(clusters, 25, 1e9)
        assert [
            "A->B: stands by: process 2 on there leads, with version 0.2.0 instead of 0.1.0",
            "A->B: leads now, after process 2 on there, which is silent",
        ] == said
        assert [("own", Role.LEADS), ("own", Role.GONE)] == [seat(flow, clusters, it) for it in (LEADER, 1)]

    @pytest.mark.usefixtures("seconds")
    def test_a_leader_that_renews_its_seat_keeps_it(self, flow, clusters, own) -> None:
        """However long this process waits."""
        write_seat(flow, clusters.target, LEADER, None, OTHER)
        read = clusters.target.committed_offsets

        def renewed(groups):
            there = read_seats_count(read, flow)
            write_seat(flow, clusters.target, LEADER, there, OTHER)
            return read(groups)

        clusters.target.committed_offsets = renewed
        assert not own.stand_by(clusters, 25, 100.0)
        assert 0 == own.led

    @pytest.mark.usefixtures("seconds")
    def test_a_target_out_of_reach_says_nothing_of_the_leader(self, flow, clusters, own, said) -> None:
        """Its seat is not taken, and that it cannot be seen is said once."""
        write_seat(flow, clusters.target, LEADER, None, OTHER)

        def unreachable(groups):
            raise ClusterUnreachable("B does not answer", cluster="B")

        clusters.target.committed_offsets = unreachable
        assert not own.stand_by(clusters, 25, 100.0)
        assert (["A->B: stands by and cannot see who leads: B does not answer"], 0) == (said, own.led)

    def test_without_the_right_to_the_group_it_leads_as_if_alone(self, flow, clusters, own, said) -> None:
        """And says which right is missing."""
        clusters.target.refuse("committed_offsets", group_of(flow), ClusterRefused("B refuses"))
        assert own.stand_by(clusters, 25, time.monotonic() + 60)
        assert (True, False) == (own.without_seats, own.lost)
        assert "grant READ on group __twinlog-leader.A->B" in said[0]

    def test_a_signal_ends_it(self, flow, clusters, own) -> None:
        """It leads no more."""
        own.leaving.set()
        assert not own.stand_by(clusters, 25, time.monotonic() + 60)


class TestSeat:
    """What a leader does with its seat."""

    def test_a_write_whose_answer_was_lost_counts(self, flow, clusters, own) -> None:
        """The seat is still its own."""
        own.stand_by(clusters, 25, time.monotonic() + 60)
        write_seat(flow, clusters.target, LEADER, own.count, replace(OWN, role=Role.LEADS))
        own._write(clusters, replace(OWN, role=Role.LEADS))
        assert (False, 1) == (own.lost, own.count)

    def test_a_seat_that_another_took_is_lost(self, flow, clusters, own) -> None:
        """And is not written again."""
        own.stand_by(clusters, 25, time.monotonic() + 60)
        write_seat(flow, clusters.target, LEADER, own.count, OTHER)
        own._write(clusters, replace(OWN, role=Role.LEADS))
        assert (True, True) == (own.lost, own.handed_on(clusters))
        assert ("other", Role.LEADS) == seat(flow, clusters)


def read_seats_count(read, flow) -> int:
    (at,) = [
        it for key, it in read([group_of(flow)]).found[group_of(flow)].items() if key.partition == LEADER
    ]
    return at.offset


@pytest.mark.usefixtures("seconds")
def test_a_leader_that_is_not_seen_to_renew_is_none(flow, clusters) -> None:
    """A cycle beside what it left behind copies itself."""
    assert None is live_leader(flow, clusters.target)
    write_seat(flow, clusters.target, LEADER, None, OTHER)
    assert None is live_leader(flow, clusters.target)


def test_an_unexpected_error_leaves_the_leader_its_ears(flow, clusters, own, monkeypatch) -> None:
    """It went on to copy, and no signal ended it."""
    monkeypatch.setattr(leading, "HAND_OVER_SECONDS", 0.0)
    monkeypatch.setattr(leading, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(leading, "open_clusters", lambda _: nullcontext(clusters))
    failed = threading.Event()

    def write_nothing(*_: object) -> None:
        failed.set()
        raise ValueError("not foreseen")

    assert own.stand_by(clusters, 25, time.monotonic() + 60)
    with monkeypatch.context() as broken:
        broken.setattr(leading, "write_seat", write_nothing)
        with own:
            assert failed.wait(30)
            own.leaving.set()
            assert own.ready_to_stop.wait(30)
            broken.undo()

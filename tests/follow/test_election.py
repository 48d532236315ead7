"""Who leads, from how the leader's seat changes."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from twinlog.follow.leading import SILENT_SECONDS, Watch, differences, free_seat
from twinlog.state.seats import LEADER, SHOWN_SECONDS, Member, Role, Seat, shown

ANA = Member("ana", "host-1", 1, "0.1.0", "abc", Role.LEADS)
BEN = Member("ben", "host-2", 2, "0.1.0", "abc")


class TestWatch:
    """When a process may take the leader's seat."""

    def test_nobody_and_one_that_left_are_no_leader(self) -> None:
        """Their seat is free at once."""
        watch = Watch(0.0)
        left = Seat(LEADER, 7, replace(ANA, role=Role.GONE))
        assert (True, True) == (watch.sees(None, 1.0).may_take(1.0), watch.sees(left, 1.0).may_take(1.0))

    @given(
        st.lists(st.tuples(st.floats(0.01, 2 * SILENT_SECONDS), st.sampled_from(["same", "new", "blind"])))
    )
    def test_only_silence_that_was_watched_counts(self, events) -> None:
        """The seat is taken only after it was seen unchanged for long enough, with no blind moment in between."""
        now, count, since = 0.0, 0, 0.0
        watch = Watch(now).sees(Seat(LEADER, count, ANA), now)
        for pause, event in events:
            now += pause
            if event == "blind":
                watch, since = watch.blind(now), now
                continue
            if event == "new":
                count, since = count + 1, now
            watch = watch.sees(Seat(LEADER, count, ANA), now)
            assert (now - since >= SILENT_SECONDS) == watch.may_take(now)


def test_another_version_or_file_is_told() -> None:
    """In words; nothing if both are the same."""
    assert "" == differences(ANA, BEN)
    assert "version 0.1.0 instead of 0.2.0" == differences(ANA, replace(BEN, version="0.2.0"))
    assert "another configuration file" == differences(ANA, replace(BEN, config="def"))


def test_a_seat_of_a_living_process_is_not_taken() -> None:
    """One that left, or was not heard of, makes room; without room there is none."""
    seats = {1: Seat(1, 0, BEN), 2: Seat(2, 0, replace(BEN, role=Role.GONE))}
    assert 2 == free_seat(seats, 3, frozenset({1, 2}))
    assert 1 == free_seat(seats, 3, frozenset())
    assert None is free_seat(seats, 2, frozenset({1}))
    assert None is free_seat({}, 1, frozenset())


def test_people_see_the_leader_first_and_nobody_who_is_gone() -> None:
    """Nor anybody who was not heard of for a while."""
    now = 1_000_000
    seats = {
        3: Seat(3, 0, replace(BEN, at_ms=now)),
        LEADER: Seat(LEADER, 0, replace(ANA, at_ms=now)),
        4: Seat(4, 0, replace(BEN, role=Role.GONE, at_ms=now)),
        5: Seat(5, 0, replace(BEN, at_ms=now - round(SHOWN_SECONDS * 1000) - 1)),
    }
    assert ["ana", "ben"] == [it.run_id for it in shown(seats, now)]

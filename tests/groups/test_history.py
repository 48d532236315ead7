"""The history of groups is written where something changed, and stays bounded."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.formats.ledger.groups import GroupLook, Stand
from twinlog.groups import history
from twinlog.groups.history import DAY_MS, HOUR_MS, MINUTE_MS, is_news, superfluous


def look(at_ms: int, offset: int = 0, size: int = 0) -> GroupLook:
    made = GroupLook.of(at_ms, [Stand("g", "t", 0, "A.t", "id", offset, offset, True)])
    return replace(made, positions="x" * size) if size else made


def grown(moments, size: int = 0):
    """Look at these moments, each time forgetting what is superfluous; yield what is left after each."""
    kept: list[GroupLook] = []
    for now in moments:
        kept = [*kept, look(now, now, size)]
        gone = superfluous(kept, now)
        kept = [it for it in kept if it not in gone]
        yield now, kept


class TestSuperfluous:
    @given(st.lists(st.integers(0, 100 * DAY_MS), min_size=1, unique=True).map(sorted))
    def test_the_newest_stays_and_the_base_reaches_back(self, moments):
        """And at most one of each stretch, whatever the moments."""
        for now, kept in grown(moments):
            assert now == kept[-1].at_ms
            assert [it.at_ms for it in kept] == sorted({it.at_ms for it in kept})
            assert sum(now - it.at_ms > 30 * DAY_MS for it in kept) <= 1

    def test_a_year_of_looks_each_minute_is_bounded(self):
        """An hour by minutes, a day by hours, a month by days: no more than 120 looks."""
        month = [*range(0, 40 * DAY_MS, HOUR_MS), *range(40 * DAY_MS, 40 * DAY_MS + 3 * HOUR_MS, MINUTE_MS)]
        *_, (now, kept) = grown(month)
        ages = [now - it.at_ms for it in kept]
        assert 60 <= sum(age <= HOUR_MS for age in ages) <= 62
        assert 20 <= sum(HOUR_MS < age <= DAY_MS for age in ages) <= 25
        assert 28 <= sum(DAY_MS < age for age in ages) <= 32
        assert len(kept) <= 120

    def test_many_bytes_make_it_coarser_and_not_shorter(self):
        """The oldest stay, the newest stays; what is close to its neighbours goes first."""
        size = history.MOST_BYTES // 10
        *_, (now, kept) = grown(range(0, 12 * HOUR_MS, HOUR_MS // 6), size)
        assert len(kept) <= 10
        assert now == kept[-1].at_ms
        assert kept[0].at_ms <= 6 * HOUR_MS


class TestNote:
    @pytest.fixture
    def written(self, monkeypatch):
        records: list[object] = []
        monkeypatch.setattr(history, "write_ledger", lambda _flow, _target, them: records.extend(them))
        monkeypatch.setattr(history, "forget", lambda _flow, _target, it: records.append(("gone", it.at_ms)))
        return records

    @staticmethod
    def seen(at_ms: int, *looks: GroupLook, copies: bool = True):
        ledger = SimpleNamespace(group_looks=looks, copies=copies)
        return SimpleNamespace(at_ms=at_ms, ledger=ledger, held="", uncovered=(), routes={})

    @staticmethod
    def row(offset: int):
        return SimpleNamespace(
            group="g",
            topic="t",
            partition=0,
            remote_topic="A.t",
            upstream_offset=offset,
            downstream_offset=offset,
            exact=True,
        )

    def test_only_what_has_changed_is_written(self, flow, written):
        """Nothing in an idle cycle, nothing twice a minute, nothing of a flow that does not copy."""
        history.note(flow, None, self.seen(0), [])
        assert [] == written
        history.note(flow, None, self.seen(MINUTE_MS), [self.row(3)])
        (first,) = written
        assert [3] == [it.upstream for it in first.stands]
        history.note(flow, None, self.seen(5 * MINUTE_MS, first), [self.row(3)])
        history.note(flow, None, self.seen(MINUTE_MS + 59_999, first), [self.row(4)])
        history.note(flow, None, self.seen(9 * MINUTE_MS, first, copies=False), [self.row(4)])
        assert [first] == written
        history.note(flow, None, self.seen(9 * MINUTE_MS, first), [self.row(4)])
        assert 9 * MINUTE_MS == written[-1].at_ms

    def test_what_makes_room_is_forgotten(self, flow, written):
        """In the cycle that writes the new one."""
        old = [look(DAY_MS + minute * MINUTE_MS, minute) for minute in (0, 1)]
        history.note(flow, None, self.seen(DAY_MS + 2 * HOUR_MS, *old), [self.row(9)])
        assert [("gone", DAY_MS + MINUTE_MS)] == written[1:]


def test_groups_that_were_not_told_are_news():
    """A look without a group's positions is not one that says that it has none."""
    known = look(1)
    assert is_news([known], replace(known, at_ms=2, unseen=("g",)))
    assert not is_news([known], replace(known, at_ms=2))
    assert not is_news([], GroupLook.of(1, []))

"""Which duties are due, and which are off."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.flow.values import NEVER
from twinlog.duties.plan import DutyName, DutyState, due, every, turned_off

MINUTE_MS = 60_000


class TestDue:
    """When a duty has its turn."""

    @given(
        st.dictionaries(st.sampled_from("abc"), st.floats(1.0, 100.0), min_size=1),
        st.lists(st.floats(0.1, 50.0), min_size=1, max_size=60),
    )
    def test_nothing_twice_within_its_interval_and_nothing_forgotten(self, intervals, pauses) -> None:
        """Whenever it is asked: what is due is done; what is not was done less than its interval ago."""
        now, last = 0.0, {}
        for pause in pauses:
            now += pause
            chosen = due(list(intervals), intervals.__getitem__, last, now)
            for name in intervals:
                late = name not in last or now - last[name] >= intervals[name]
                assert late == (name in chosen)
            last.update(dict.fromkeys(chosen, now))
            assert all(now - last[name] < intervals[name] for name in intervals)


class TestTurnedOff:
    """Each duty has a key."""

    def test_by_default_what_mm2_does_is_on(self, flow) -> None:
        """With its intervals; quotas and users have to be asked for."""
        assert {
            DutyName.TOPIC_CONFIGS: float(flow.sync_topic_configs_interval_seconds),
            DutyName.TOPIC_ACLS: float(flow.sync_topic_acls_interval_seconds),
            DutyName.AUDIT: 30.0,
            DutyName.ALARMS: 60.0,
        } == every(flow)
        assert ["quotas", "schemas"] == [it.name for it in turned_off(flow)]

    def test_each_is_turned_off_by_its_key(self, flow) -> None:
        """And the report says by which."""
        off = replace(
            flow,
            sync_topic_configs=False,
            sync_topic_acls=False,
            audit=replace(flow.audit, schedule=NEVER),
        )
        assert [
            ("topic_configs", DutyState.OFF, "sync.topic.configs.enabled turns it on"),
            ("topic_acls", DutyState.OFF, "sync.topic.acls.enabled turns it on"),
            ("audit", DutyState.OFF, "twinlog.audit.schedule turns it on"),
        ] == [(it.name, it.state, it.message) for it in turned_off(off) if "twinlog.s" not in it.message]

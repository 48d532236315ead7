"""What a throttle lets through is never more than its rate."""

from hypothesis import given
from hypothesis import strategies as st

from twinlog.lane.copy.loops import BURST_SECONDS, Throttle


@given(st.floats(1, 1e9), st.lists(st.tuples(st.integers(0, 10_000_000), st.floats(0, 5)), max_size=50))
def test_no_stretch_of_time_gets_more_than_the_rate_and_one_burst(rate: float, portions) -> None:
    """Whoever waits as told sends at most rate x time + burst, plus the portion that overdraws."""
    throttle = Throttle(rate, now=0.0)
    now = total = 0.0
    for size, pause in portions:
        now += pause
        allowed = rate * (now + BURST_SECONDS)
        assert total <= allowed * 1.000001 + 1
        total += size
        now += throttle.spend(size, now)


def test_who_stays_below_the_rate_never_waits() -> None:
    """Half the rate, sent every tenth of a second."""
    throttle = Throttle(1000.0, now=0.0)
    assert [0.0] * 50 == [throttle.spend(50, 0.1 * (turn + 1)) for turn in range(50)]

"""A lane asks for so much that its target takes it in seconds."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from twinlog.lane.copy.pace import LEAST_BYTES, QUICK_SECONDS, SLOW_SECONDS, Pace


@given(st.integers(1, 1 << 26), st.lists(st.floats(0, 100), max_size=40))
def test_a_fetch_stays_between_the_least_and_the_most(most: int, seconds: list[float]) -> None:
    """Whatever the target does; what is not quick is committed."""
    pace = Pace(most)
    for took in seconds:
        assert (took >= QUICK_SECONDS) == pace.took(took)
        assert min(LEAST_BYTES, most) <= pace.bytes <= most


@given(st.floats(9_000, 1e9), st.floats(0, 11))
def test_a_transaction_ends_in_time_at_any_rate(rate: float, burst: float) -> None:
    """A target that takes `burst` seconds of its rate at once: no portion takes longer than three quarters of 60 s."""
    pace = Pace(16 << 20)
    owed, asked = -burst * rate, pace.bytes
    for _ in range(100):
        asked, sent = pace.bytes, asked  # the next answer is asked for before this one is sent
        owed += sent
        wait = max(0.0, owed / rate)
        assert wait <= 60
        owed = 0.0 if wait else owed
        pace.took(wait)


def test_few_bytes_are_no_trial() -> None:
    """A lane at rest does not wait for answers because of them, and one at full size never."""

    def answer(size: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(block=bytes(size // 2))] * 2

    pace, full = Pace(1 << 24), Pace(1024)
    assert (False, True, False) == (
        pace.is_tried_by(answer(LEAST_BYTES // 2 - 2)),
        pace.is_tried_by(answer(LEAST_BYTES // 2)),
        full.is_tried_by(answer(1 << 20)),
    )
    assert SLOW_SECONDS > QUICK_SECONDS

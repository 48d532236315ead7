"""Asking again: how often, how long between, and when it ends."""

from __future__ import annotations

import itertools
import time

import pytest

from twinlog.protocol.retry import until


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest pauses there could be, and no time lost over them."""
    slept: list[float] = []
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    monkeypatch.setattr("tenacity.nap.time.sleep", slept.append)
    return slept


@pytest.mark.parametrize(
    ("failures", "expected"),
    [(0, []), (1, [0.01]), (3, [0.01, 0.02, 0.04]), (5, [0.01, 0.02, 0.04, 0.05, 0.05])],
)
def test_pauses_double_up_to_the_longest(pauses: list[float], failures: int, expected: list[float]) -> None:
    """One behind each attempt that failed, none before the first or behind the last."""
    answers = itertools.chain([None] * failures, ["there"])
    found = until(lambda: next(answers), ValueError, seconds=30, first_seconds=0.01, longest_seconds=0.05)
    assert ("there", expected) == (found, pytest.approx(pauses))


def test_it_gives_up_when_the_time_is_over(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the caller makes of it, which is made then."""
    clock = itertools.count()
    monkeypatch.setattr("tenacity.time.monotonic", lambda: next(clock))
    asked: list[int] = []
    with pytest.raises(TimeoutError, match="asked"):
        until(lambda: asked.append(1), lambda: TimeoutError(f"asked {len(asked)} times"), seconds=5)
    assert len(asked) > 1


def test_errors_pass() -> None:
    """What the question raises is no reason to ask again."""
    with pytest.raises(ZeroDivisionError):
        until(lambda: 1 // 0, ValueError, seconds=30)


def test_an_attempt_that_takes_all_the_time_is_not_the_last() -> None:
    """The answer of a new leader comes at once, after a frozen one took longer than there was."""
    answers = iter([None, "there"])

    def attempt() -> str | None:
        time.sleep(0.05)
        return next(answers)

    assert "there" == until(attempt, ValueError, seconds=0.01, first_seconds=0.001)

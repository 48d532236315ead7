"""Asking again: with pauses that double and are drawn at random, and never for longer than was said.

Time is `time.monotonic`, so a clock that jumps changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_result, stop_after_delay, wait_random_exponential

_T = TypeVar("_T")


def until(
    attempt: Callable[[], _T | None],
    give_up: Callable[[], Exception],
    *,
    seconds: float,
    first_seconds: float = 0.01,
    longest_seconds: float = 1.0,
) -> _T:
    """Call `attempt` until it returns something; raise what `give_up` makes after `seconds`.

    Before attempt n+1 it sleeps for a random time up to first_seconds * 2^n, at most `longest_seconds` ("full
    jitter"): many lanes that lost the same broker do not come back all at once.  Errors of `attempt` pass.
    """
    began = time.monotonic()
    first = attempt()
    if first is not None:  # as nearly always: a lane that follows asks a hundred times a second
        return first
    known = [first]  # that attempt failed: what follows begins with the pause behind it

    def stop(_: RetryCallState) -> NoReturn:
        raise give_up()

    retrying = Retrying(
        retry=retry_if_result(lambda result: result is None),
        wait=wait_random_exponential(multiplier=first_seconds, max=longest_seconds),
        stop=stop_after_delay(seconds - (time.monotonic() - began)),
        retry_error_callback=stop,
    )
    result = retrying(lambda: known.pop() if known else attempt())
    assert result is not None
    return result

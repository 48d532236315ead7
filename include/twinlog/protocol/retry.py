"""Repeat a question with random pauses whose limit doubles, for a limited time.

Time is `time.monotonic`, so a clock that jumps has no effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

_T = TypeVar("_T")


LAG_SECONDS = 2.0
"""How long a broker that does not know a topic is asked again: one that has just started may only lag."""


def until(
    attempt: Callable[[], _T | None],
    give_up: Callable[[], Exception],
    *,
    seconds: float,
    first_seconds: float = 0.01,
    longest_seconds: float = 1.0,
) -> _T:
    """Call `attempt` until it returns a value other than None; after `seconds` raise the error that `give_up` makes.

    Unless there is no time at all it is called twice at least: one attempt at a broker that is frozen may take it all.

    Before attempt n+1 it sleeps for a random time of up to first_seconds * 2^n, but at most `longest_seconds` ("full
    jitter"), so that many lanes that lost the same broker do not all return at once.  Errors of `attempt` are passed
    on.
    """
    began = time.monotonic()
    first = attempt()
    if first is not None:  # nearly always: a lane in follow mode asks a hundred times a second
        return first
    known = [first]  # the first attempt failed; the loop below starts with the pause after it

    def stop(_: RetryCallState) -> NoReturn:
        raise give_up()

    retrying = Retrying(
        retry=retry_if_result(lambda result: result is None),
        wait=wait_random_exponential(multiplier=first_seconds, max=longest_seconds),
        stop=stop_after_delay(seconds - (time.monotonic() - began)) & stop_after_attempt(2 if seconds else 1),
        retry_error_callback=stop,
    )
    result = retrying(lambda: known.pop() if known else attempt())
    assert result is not None
    return result

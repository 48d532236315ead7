"""How much a controller is asked for at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

V = TypeVar("V")

REQUEST_RECORDS = 5_000
"""KRaft refuses a request as a whole that comes to more than 10,000 metadata records."""


def requests(wanted: Iterable[V], records: Callable[[V], int]) -> Iterator[list[V]]:
    """Cut where a request would come to more than REQUEST_RECORDS; what is larger by itself goes alone.  Pure."""
    request: list[V] = []
    total = 0
    for it in wanted:
        size = records(it)
        if request and total + size > REQUEST_RECORDS:
            yield request
            request, total = [], 0
        request.append(it)
        total += size
    if request:
        yield request

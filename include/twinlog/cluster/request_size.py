"""Limit how much a controller is asked for at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

V = TypeVar("V")

REQUEST_RECORDS = 5_000
"""Most metadata records of one request: KRaft refuses a request as a whole if it makes more than 10,000."""


def requests(wanted: Iterable[V], records: Callable[[V], int]) -> Iterator[list[V]]:
    """Cut where a request would make more than REQUEST_RECORDS; an item larger than that goes alone. Pure."""
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

"""Cut changes into requests of the size that a controller takes.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

REQUEST_RECORDS = 5_000
"""Most metadata records of one request: KRaft refuses a request as a whole if it makes more than 10,000."""


def requests(
    wanted: Iterable[V], size_of: Callable[[V], int], *, most: int = REQUEST_RECORDS, items: int | None = None
) -> Iterator[list[V]]:
    """Cut where a request would be larger than `most`, or have more than `items`; a larger item goes alone."""
    request: list[V] = []
    total = 0
    for it in wanted:
        size = size_of(it)
        if request and (total + size > most or len(request) == items):
            yield request
            request, total = [], 0
        request.append(it)
        total += size
    if request:
        yield request


def rounds(changes: Mapping[K, Mapping[str, V]]) -> Iterator[dict[K, dict[str, V]]]:
    """Spread changes over requests with one key of each item: a broker answers once an item."""
    waiting = {item: list(values.items()) for item, values in changes.items()}
    while part := {item: dict(values[:1]) for item, values in waiting.items() if values}:
        yield part
        waiting = {item: values[1:] for item, values in waiting.items()}

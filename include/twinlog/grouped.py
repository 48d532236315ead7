"""Group values by a key, and leave keys out."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the second of each pair by the first, all in the order in which they come.

    Of partitions it makes their numbers by topic: a TopicPartition is such a pair.
    """
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def without_keys(values: Mapping[K, V], left_out: Container[K]) -> dict[K, V]:
    """Return the values whose keys are not among those left out."""
    return {key: value for key, value in values.items() if key not in left_out}

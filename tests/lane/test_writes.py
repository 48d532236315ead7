"""What is handed to the kernel at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.lane.producer import UNANSWERED_BATCHES, WRITE_ROUNDS, rounds, writes

QUEUES: Any = st.dictionaries(
    st.tuples(st.just("t"), st.integers(0, 2000)),
    st.lists(st.integers(), min_size=1, max_size=60),
    max_size=8,
)


@given(QUEUES)
def test_every_batch_goes_out_once_in_the_order_of_its_partition(queues: Any) -> None:
    """Rounds and writes put together again are the queues; no round has a partition twice."""
    found: dict[Any, list[int]] = {}
    for write in writes(list(rounds(queues))):
        assert 0 < len(write) <= WRITE_ROUNDS
        for batches in write:
            for partition, batch in batches.items():
                found.setdefault(partition, []).append(batch)
    assert queues == found


@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [(1, [16, 16, 8]), (32, [16, 16, 8]), (100, [5] * 8), (512, [1] * 40), (5000, [1] * 40)],
)
def test_the_answers_to_two_writes_fit_into_the_sockets_buffers(partitions: int, sizes: list[int]) -> None:
    """A round of more batches than that is a write by itself."""
    queues: Any = {("t", number): [0] * 40 for number in range(partitions)}
    found = [len(write) for write in writes(list(rounds(queues)))]
    assert sizes == found
    assert max(found) == 1 or 2 * max(found) * partitions <= UNANSWERED_BATCHES

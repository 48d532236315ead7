"""What was committed behind a place in a log is found, whoever else has a transaction open there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from damage import TOPIC, DamagingBrokers, flipped
from hypothesis import given
from hypothesis import strategies as st
from test_cutter import control
from test_log_reader import wrote

from twinlog.batches.header import BatchHeader
from twinlog.kafka_types import TopicPartition
from twinlog.logs import committed_after
from twinlog.logs.committed_after import first_committed_after

PLACE = (TOPIC, 0)
OURS = {7, 9}
STEPS = st.lists(
    st.tuples(st.sampled_from([7, 8, 9]), st.sampled_from(["write", "commit", "abort"])), max_size=20
)


def log_of(steps: Sequence[tuple[int, str]]) -> list[bytes]:
    """A batch or a marker for each step; what is ours has an end."""
    done = [*steps, (7, "abort"), (9, "abort")]
    return [
        wrote(at, b"k", b"v" * 50, producer)
        if what == "write"
        else bytes(control(at, producer, commit=what == "commit"))
        for at, (producer, what) in enumerate(done)
    ]


def committed(steps: Sequence[tuple[int, str]], start: int) -> int | None:
    """Where the first batch of ours lies that was committed, in the order of the markers."""
    waiting: dict[int, int] = {}
    for at, (producer, what) in enumerate(steps):
        if at < start or producer not in OURS:
            continue
        if what == "write":
            waiting.setdefault(producer, at)
        elif (first := waiting.pop(producer, None)) is not None and what == "commit":
            return first
    return None


class OneAtATime(DamagingBrokers):
    """Answers each fetch with one batch."""

    def _block(self, item: TopicPartition, offset: int) -> bytes:
        block = super()._block(item, offset)
        return block[: BatchHeader.read(block).size] if block else block


def found(
    log: Sequence[bytes], start: int, brokers_of: type[DamagingBrokers] = DamagingBrokers
) -> int | None:
    """What is found behind `start`."""
    brokers = brokers_of(list(log))
    return first_committed_after(brokers, {PLACE: start}, {PLACE: len(log)}, OURS).get(PLACE)  # type: ignore[arg-type]


@given(STEPS, st.integers(0, 22))
def test_what_was_committed_is_found_and_nothing_else(steps: list[tuple[int, str]], start: int) -> None:
    """A stranger's transaction may be open before, around and behind it."""
    assert committed(steps, start) == found(log_of(steps), start)


@pytest.mark.parametrize(("aborted", "expected"), [(1, 2), (40, None)])
def test_no_more_is_read_than_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, aborted: int, expected: int | None
) -> None:
    """And what it takes to see how a transaction ends that begins there."""
    monkeypatch.setattr(committed_after, "READ_BYTES", 1000)
    log = log_of([*[(7, "write")] * aborted, (7, "abort"), *[(9, "write")] * 40, (9, "commit")])
    assert expected == found(log, 0, OneAtATime)


def test_what_is_damaged_says_nothing() -> None:
    """The audit names it; a copy is not stopped for it."""
    log = log_of([(7, "write"), (7, "commit")])
    assert 0 == found(log, 0)
    assert found([log[0], flipped(log[1], 8 * 61), *log[2:]], 0) is None

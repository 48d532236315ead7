"""A person has to look at a transaction without an end only if its outcome is not known."""

from __future__ import annotations

import pytest

from twinlog.copying.mend.outcomes import Outcome
from twinlog.copying.mend.state import not_known
from twinlog.kafka_types import TopicPartition

FIRST, SECOND = TopicPartition("map", 0), TopicPartition("map", 1)


@pytest.mark.parametrize(
    ("judged", "expected"),
    [
        ({(FIRST, 7): Outcome.COMMITTED, (SECOND, 7): Outcome.ABORTED}, set()),
        ({(FIRST, 7): Outcome.COMMITTED, (SECOND, 7): Outcome.UNKNOWN}, {SECOND}),
        ({(FIRST, 7): Outcome.COMMITTED, (FIRST, 8): Outcome.UNKNOWN, (SECOND, 7): Outcome.EITHER}, {FIRST}),
        ({(FIRST, 7): Outcome.COMMITTED}, {SECOND}),
    ],
    ids=["all known", "one unknown", "one of two producers unknown", "one not judged"],
)
def test_a_person_is_asked_only_for_an_outcome_that_is_not_known(
    judged: dict[tuple[TopicPartition, int], Outcome], expected: set[TopicPartition]
) -> None:
    """A marker that only could not be written, for want of a leader, is written by the next cycle."""
    assert expected == not_known({FIRST, SECOND}, judged)

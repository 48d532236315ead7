"""What lanes noted is put together by partition, in the order of the topic."""

from __future__ import annotations

from twinlog.cut.history import UNKNOWN, Part, history
from twinlog.formats.transactions import Event, EventKind, Look, Seen
from twinlog.kafka_types import TopicPartition

ORDERS = TopicPartition("orders", 0)
LIVES = {"orders": "id"}


def seen(start: int, end: int, *events: Event, recording: str = "r", topic_id: str = "id") -> Seen:
    return Seen("orders", topic_id, 0, recording, start, end, events)


def began(offset: int, producer: int = 1, epoch: int = 0) -> Event:
    return Event(offset, producer, epoch, EventKind.BEGAN)


def ended(offset: int, producer: int = 1, epoch: int = 0, *, commit: bool = True) -> Event:
    return Event(offset, producer, epoch, EventKind.COMMITTED if commit else EventKind.ABORTED)


def look(at_ms: int, end: int, topic_id: str = "id", recording: str = "r") -> Look:
    return Look(recording, at_ms, {"orders": topic_id}, {ORDERS: end}, {ORDERS: end})


def parts(*records: Seen | Look) -> list[Part]:
    return sorted(history(records, "r", LIVES, whole=True).parts, key=lambda it: it.first)


def test_a_part_has_the_epoch_of_its_data() -> None:
    """The marker has the next one since KIP-890."""
    assert [Part(ORDERS, 1, 4, 2, 6)] == parts(seen(0, 7, began(2, epoch=4), ended(6, epoch=5)))


def test_an_aborted_transaction_has_no_part() -> None:
    """Nothing of it is in the copy."""
    assert [] == parts(seen(0, 7, began(2), ended(6, commit=False)))


def test_a_lane_that_goes_on_in_the_midst_notes_another_beginning() -> None:
    """The first one counts."""
    assert [Part(ORDERS, 1, 0, 2, 9)] == parts(seen(0, 5, began(2)), seen(5, 10, began(6), ended(9)))


def test_a_marker_without_a_beginning_ends_a_part_that_began_before() -> None:
    """From where on is not known."""
    assert [Part(ORDERS, 1, UNKNOWN, UNKNOWN, 6)] == parts(seen(5, 7, ended(6)))


def test_what_is_copied_anew_counts_anew() -> None:
    """After a rebuild the records come again, and some of them may have gone."""
    first = seen(0, 9, began(2), ended(4), began(6), ended(8))
    assert [Part(ORDERS, 1, 0, 2, 4), Part(ORDERS, 1, 0, 7, None)] == parts(first, seen(5, 8, began(7)))


def test_another_recording_and_another_incarnation_tell_nothing() -> None:
    """Between two recordings something may have been copied unnoted."""
    assert [] == parts(seen(0, 5, began(2), recording="old"), seen(0, 5, began(2), topic_id="gone"))


def test_looks_of_another_incarnation_do_not_count() -> None:
    """Its ends say nothing of this log."""
    found = history([look(1, 50, "gone"), look(2, 3)], "r", LIVES, whole=True)
    assert [2] == [it.at_ms for it in found.looks]


def test_the_topics_are_named_of_which_the_newest_look_saw_another_incarnation() -> None:
    """An earlier look of another one is the past."""
    looks = look(1, 3, topic_id="other"), look(2, 4)
    assert () == history(looks, "r", LIVES, whole=True).recreated
    assert ("orders",) == history(reversed(looks), "r", LIVES, whole=True).recreated


def test_a_look_that_goes_back_does_not_count() -> None:
    """It was held up, or its leader did not know the end yet."""
    found = history([look(1, 5), look(2, 9), look(3, 7), look(4, 9)], "r", LIVES, whole=True)
    assert [1, 2, 4] == [it.at_ms for it in found.looks]


def test_the_first_look_does_not_count_if_something_before_it_was_not_read() -> None:
    """What lanes committed right after it may stand before it."""
    found = history([look(1, 5), look(2, 9)], "r", LIVES, whole=False)
    assert [2] == [it.at_ms for it in found.looks]

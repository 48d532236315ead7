"""Recall a flow from its target alone: what the last cycle saw, and a few looks at each partition, no more."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import CopiedBy
from twinlog.fact import Total, Unknown, total
from twinlog.facts.recall import NOT_SEEN, Recalled, known_topics, recalled_topics, waiting_then
from twinlog.formats.ledger.gate import KnownSource
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.records import CycleReport, Gap, GapCause, Incarnation
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.state.ledger import Ledger, ledger_from, of_partition
from twinlog.state.progress import Maps
from twinlog.topics.incarnations import sources_of_copies

AT = TopicPartition("orders", 0)
TOPICS, PARTITIONS = 2_000, 10
EVERY = TOPICS * PARTITIONS


class Counted:
    """How many items were taken from collections that count."""

    def __init__(self) -> None:
        self.taken = 0

    def over(self, items: Iterator) -> Iterator:
        for item in items:
            self.taken += 1
            yield item


class CountingDict(dict):
    """A dict that counts what is taken from it one by one."""

    def __init__(self, items: dict, counted: Counted) -> None:
        super().__init__(items)
        self._counted = counted

    def __iter__(self) -> Iterator:
        return self._counted.over(super().__iter__())


class CountingTuple(tuple):
    """A tuple that does the same."""

    counted: Counted

    def __iter__(self) -> Iterator:
        return self.counted.over(super().__iter__())


def recalled_of(counted: Counted) -> Recalled:
    """Make a flow of twenty thousand partitions, all copied."""
    names = [f"t{number:04}" for number in range(TOPICS)]
    places = [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]
    ledger = Ledger(
        incarnations={name: Incarnation(name, "id", 1, f"A.{name}") for name in names},
        known_source=KnownSource(9, TOPICS, ()),
    )
    return Recalled(
        ledger=ledger,
        progress=CountingDict(dict.fromkeys(places, 4), counted),
        maps=Maps({}, {}),
        sides={},
        offsets={TopicPartition(f"A.{it.topic}", it.partition): PartitionOffsets(0, 5, 5) for it in places},
    )


def test_facts_of_twenty_thousand_partitions_take_a_few_looks_at_each(flow):
    """By counting, not by the clock."""
    counted = Counted()
    recalled = recalled_of(counted)
    topics = tuple(recalled_topics(flow, known_topics(recalled.ledger, recalled.progress), recalled))
    assert (
        [PARTITIONS] * TOPICS
        == [it.partition_count for it in topics]
        == [len(it.partitions) for it in topics]
    )
    assert counted.taken <= 3 * EVERY


def test_the_sources_of_many_copies_are_found_in_one_look_at_the_lives(flow):
    """The newest life that went into a copy tells."""
    counted = Counted()
    lives = CountingTuple(
        Incarnation(f"t{n % TOPICS}", f"id{n}", n, f"A.t{n % TOPICS}") for n in range(EVERY)
    )
    lives.counted = counted
    source_of = sources_of_copies(flow, Ledger(every_incarnation=lives))
    assert [f"t{n}" for n in range(TOPICS)] == [source_of(f"A.t{n}") for n in range(TOPICS)]
    assert (EVERY, None) == (counted.taken, source_of("other"))


def test_what_the_ledger_has_of_a_partition_is_all_of_it():
    """In whatever order it was written, and nothing of its neighbours."""
    gaps = [Gap(f"t{n % 7}", n % 5, n, n, GapCause.RETENTION, 1, 1) for n in range(300)]
    ledger = ledger_from(reversed(gaps))
    for topic, partition in {(it.topic, it.partition) for it in gaps} | {("t", 0), ("t9", 0), ("t1", 9)}:
        expected = [it for it in gaps if (it.topic, it.partition) == (topic, partition)]
        assert expected == list(of_partition(ledger.gaps, topic, partition))


def report(**numbers: int) -> dict[str, Any]:
    """A report's summary about one partition."""
    return {key: {"orders": {"0": value}} for key, value in numbers.items()}


class TestWaitingThen:
    @pytest.mark.parametrize(
        ("summary", "last", "end", "known"),
        [
            (report(next_upstream=90), 89, 90, 0),
            (report(next_upstream=90, lag=10, ends=100), 89, 100, 10),
            (report(next_upstream=90, lag=10, ends=100), 95, 100, 4),
            (report(next_upstream=90, lag=10, ends=100), 120, 121, 0),
            (report(next_upstream=90, lag=6, undecided=4, ends=100), 89, 100, 10),
            (report(next_upstream=90, lag=3, ends=100), 89, 100, 3),
            (report(lag=7, ends=7), None, 7, 7),
            ({"next_upstream": {"orders": {}}}, 89, 90, 0),
        ],
        ids=[
            "all-copied",
            "lag",
            "copied-since",
            "copied-beyond",
            "undecided",
            "markers",
            "never-copied",
            "empty",
        ],
    )
    def test_known(self, summary: dict[str, Any], last: int | None, end: int, known: int):
        """By what the report saw, less what was copied since; the source's end is never before the copy's."""
        waits = waiting_then(AT, summary, last)
        assert (end, Total(known)) == (waits.end, total((waits.lag, waits.undecided)))

    @pytest.mark.parametrize("summary", [None, {}, {"next_upstream": {"pay": {}}}], ids=str)
    def test_what_nobody_reported_is_not_known(self, summary: dict[str, Any] | None):
        """It is no 0, whatever was copied."""
        waits = waiting_then(AT, summary, 89)
        assert [Unknown, Unknown] == [type(it) for it in (waits.lag, waits.undecided)]


@pytest.mark.parametrize(
    ("noted", "early"),
    [
        ({}, NOT_SEEN),
        ({"deleted_early": {}}, 0),
        ({"deleted_early": {"orders": {"0": 4}, "pay": {"0": 4}}}, 4),
    ],
)
def test_of_a_topic_that_the_last_cycle_did_not_look_at_only_what_was_named_is_known(flow, noted, early):
    """Its age, size and early deletions are not known, and what was named as missing counts; others stay known."""
    places = {name: SourceIncarnation(name, "id", 0) for name in ("orders", "pay")}
    observed = {
        it: Observed(*it, f"A.{name}", "", 0, 9, 9, 9, 8, {"missing": 1}, {}, (), 0, 0, 1, {})
        for name, it in places.items()
    }
    ledger = Ledger(
        incarnations={name: Incarnation(name, "id", 1, f"A.{name}") for name in places},
        known_source=KnownSource(9, 1, (), undecided_seen=True),
        observed=observed,
        last_report=CycleReport("run", {"next_upstream": {"orders": {"0": 9}}, **noted}, 9),
    )
    flow = replace(flow, copied_by=CopiedBy.MIRRORING)
    recalled = Recalled(ledger, {it.topic_partition: 8 for it in places.values()}, Maps({}, {}), {}, {})
    looked, other = recalled_topics(flow, ("orders", "pay"), recalled)
    assert [Total(1), Total(1, NOT_SEEN.why)] == [looked.missing, other.missing]
    assert (0.0, 0.0, early) == (
        *(looked.age_seconds, looked.undecided_seconds),
        looked.partitions[0].deleted_early,
    )
    assert [NOT_SEEN] * 4 == [
        *(other.age_seconds, other.undecided_seconds, other.bytes, other.partitions[0].deleted_early)
    ]

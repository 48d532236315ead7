"""What the gate asks of a large flow is as much as there is of it: each partition is looked at a few times, no more."""

from collections.abc import Iterator

from twinlog.checks.coverage import PartitionCoverage
from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.gate import KnownSource
from twinlog.formats.ledger.records import Gap, GapCause, Incarnation
from twinlog.gate import facts
from twinlog.gate.facts import StandbyState
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import Ledger, ledger_from, of_partition
from twinlog.state.progress import Maps
from twinlog.topics.incarnations import sources_of_copies

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


def state_of(counted: Counted) -> StandbyState:
    """Make a flow of twenty thousand partitions, all copied and audited."""
    names = [f"t{number:04}" for number in range(TOPICS)]
    places = [TopicPartition(name, number) for name in names for number in range(PARTITIONS)]
    coverage = CountingTuple(PartitionCoverage(it.topic, it.partition, 5, 5, 0, 9) for it in places)
    coverage.counted = counted
    ledger = Ledger(
        incarnations={name: Incarnation(name, "id", 1, f"A.{name}") for name in names},
        known_source=KnownSource(9, TOPICS, ()),
    )
    return StandbyState(
        ledger=ledger,
        progress=CountingDict(dict.fromkeys(places, 4), counted),
        maps=Maps({}, {}),
        coverage=coverage,
        sides={},
        offsets={TopicPartition(f"A.{it.topic}", it.partition): PartitionOffsets(0, 5, 5) for it in places},
        disks=LogDirs(),
        at_ms=10,
        gaps=(),
    )


def test_facts_of_twenty_thousand_partitions_take_a_few_looks_at_each(flow):
    """Rows, and what is said of coverage: by counting, not by the clock."""
    counted = Counted()
    state = state_of(counted)
    topics = sorted(state.ledger.incarnations)
    rows = facts.known_partition_rows(flow, topics, state)
    by_topic = facts.known_topic_rows(flow, topics, state, 1, frozenset())
    covered = facts.coverage_by_topic(state)
    assert (EVERY, TOPICS, TOPICS) == (len(rows), len(by_topic), len(covered))
    assert {(PARTITIONS, 100)} == {(it["known_partitions"], it["audited_percent"]) for it in by_topic}
    assert counted.taken <= 6 * EVERY


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

"""A cut splits no transaction of the source, whatever the order of writes, markers, looks and copies."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.cut.history import UNKNOWN, History, Part, history
from twinlog.cut.plan import Cut, NoCut, find, transactions
from twinlog.formats.transactions import Event, EventKind, Look, Seen
from twinlog.kafka_types import TopicPartition

TOPIC, TOPIC_ID, RECORDING = "orders", "id", "r"
PLACES = tuple(TopicPartition(TOPIC, number) for number in range(3))


def look(at_ms: int, before: list[int], after: list[int]) -> Look:
    """Make a look at partitions 0, 1, ... of one topic."""
    first, second = (dict(zip(PLACES, ends, strict=False)) for ends in (before, after))
    return Look(RECORDING, at_ms, {TOPIC: TOPIC_ID}, first, second)


def part(number: int, producer: int, epoch: int, first: int, marker: int | None) -> Part:
    """Make a part in partition `number`."""
    return Part(PLACES[number], producer, epoch, first, marker)


def copied(*ends: int) -> dict[TopicPartition, int]:
    """Say how far partitions 0, 1, ... are copied."""
    return dict(zip(PLACES, ends, strict=False))


EARLY = look(0, [0, 0], [0, 0])
"""A look at empty logs: all that was written since is known."""

# --- single rules -------------------------------------------------------------------------------------------


def test_everything_copied_is_the_cut_if_each_transaction_ended_before_a_look() -> None:
    """Nothing gives way where nothing can be split."""
    known = History((part(0, 1, 0, 0, 4), part(1, 1, 0, 2, 5)), (look(7, [5, 6], [5, 6]),))
    assert Cut(copied(9, 8), 7, 0, frozenset({TOPIC})) == find(known, copied(9, 8))


def test_a_transaction_whose_marker_no_look_has_seen_is_left_out_of_every_partition() -> None:
    """Its other parts may never have been copied."""
    known = History((part(0, 1, 0, 3, 6), part(1, 1, 0, 2, 5)), (EARLY, look(7, [5, 6], [5, 6])))
    assert Cut(copied(3, 2), 7, 1, frozenset({TOPIC})) == find(known, copied(9, 8))


def test_a_topic_that_the_flow_has_left_out_has_an_offset_only_if_something_lies_behind_it() -> None:
    """The cut then does not depend on what has become of its copy."""
    old = TopicPartition("old", 0)
    open_one = part(0, 1, 0, 3, None)
    looks = (EARLY, look(7, [9], [9]))
    before = copied(9) | {old: 5}
    assert Cut(copied(3), 7, 1, frozenset({TOPIC})) == find(History((open_one,), looks), before)
    torn = open_one._replace(place=old, first=2)
    expected = copied(3) | {old: 2}
    assert Cut(expected, 7, 1, frozenset({TOPIC})) == find(History((open_one, torn), looks), before)


def test_what_gives_way_takes_others_with_it() -> None:
    """A transaction that ends behind the cut of one partition is left out of the others, too."""
    open_one = part(0, 1, 0, 3, None)
    other = (part(0, 2, 0, 1, 4), part(1, 2, 0, 2, 3))
    known = History((open_one, *other), (EARLY, look(7, [9, 9], [9, 9])))
    assert Cut(copied(1, 2), 7, 2, frozenset({TOPIC})) == find(known, copied(9, 9))


def test_parts_of_one_producer_and_epoch_between_two_looks_count_as_one() -> None:
    """Before KIP-890 nobody can tell which of them belong together."""
    parts = [part(0, 1, 0, 0, 1), part(0, 1, 0, 2, 3), part(1, 1, 0, 0, 1)]
    assert [parts] == [sorted(it) for it in transactions(parts, [look(7, [9, 9], [9, 9])])]


def test_a_look_between_them_separates_parts_of_one_producer_and_epoch() -> None:
    """What ended before its first answers is another transaction than what began behind its second answers."""
    first, second = [part(0, 1, 0, 0, 1)], [part(1, 1, 0, 3, 5)]
    looks = [look(1, [2, 3], [2, 3]), look(2, [9, 9], [9, 9])]
    assert [first, second] == transactions([*first, *second], looks)


def test_parts_of_different_epochs_are_different_transactions() -> None:
    """Since KIP-890 each transaction has an epoch of its own."""
    parts = [part(0, 1, 4, 0, 1), part(1, 1, 5, 0, 1)]
    assert [[parts[0]], [parts[1]]] == transactions(parts, [look(7, [9, 9], [9, 9])])


def test_parts_of_one_producer_in_one_partition_are_different_transactions() -> None:
    """A transaction has one marker in a partition."""
    parts = [part(0, 1, 0, 0, 1), part(0, 1, 0, 2, 3)]
    assert [[parts[0]], [parts[1]]] == transactions(parts, [look(7, [9, 9], [9, 9])])


def test_a_part_that_began_unseen_counts_with_all_of_its_producer() -> None:
    """Its epoch is not known: the marker has another."""
    parts = [part(0, 1, UNKNOWN, UNKNOWN, 3), part(1, 1, 4, 0, 1), part(1, 1, 5, 2, 3)]
    assert [parts] == [sorted(it) for it in transactions(parts, [look(7, [9, 9], [9, 9])])]


def test_there_is_no_cut_without_a_look_that_the_copy_has_reached() -> None:
    """The reason names the partition that is behind."""
    known = History((), (look(7, [5, 6], [5, 6]),))
    assert NoCut(
        "orders-1 is copied to offset 5, and reached 6 when the oldest look that is kept was taken",
    ) == find(known, copied(9, 5))
    assert isinstance(find(History((), ()), copied(9, 5)), NoCut)


TEMP = TopicPartition("temp", 0)


@pytest.mark.parametrize(("marker", "left_out"), [(4, 0), (7, 1)], ids=["whole", "not-whole"])
def test_a_transaction_of_a_topic_that_is_gone_is_judged_by_its_other_parts(
    marker: int, left_out: int
) -> None:
    """No look will see a marker there any more; but if it is left out, then there, too."""
    ended = look(7, [5, 6], [5, 6])
    known = History((Part(TEMP, 1, 4, 0, 1), part(0, 1, 4, 3, marker)), (EARLY, ended))
    found = find(known, {**copied(9, 8), TEMP: 2}, {"temp"})
    places = {**copied(3, 8), TEMP: 0} if left_out else copied(9, 8)
    assert Cut(places, 7, left_out, frozenset({TOPIC})) == found


def test_a_topic_that_is_gone_but_was_there_at_the_look_is_judged_as_any() -> None:
    """It may have lost its end with the source."""
    both = Look(
        RECORDING, 7, {TOPIC: TOPIC_ID, "temp": "id"}, {PLACES[0]: 9, TEMP: 1}, {PLACES[0]: 9, TEMP: 2}
    )
    known = History((Part(TEMP, 1, 4, 0, 1), part(0, 1, 4, 3, 4)), (look(0, [0], [0]), both))
    assert {PLACES[0]: 3, TEMP: 0} == find(known, {**copied(9), TEMP: 2}, {"temp"}).offsets


def test_there_is_no_cut_that_rests_on_what_is_not_known() -> None:
    """A transaction that began before the history and has to be left out is not cut by guess."""
    known = History((part(0, 1, UNKNOWN, UNKNOWN, 6), part(1, 1, 3, 7, None)), (look(7, [5, 5], [5, 5]),))
    found = find(known, copied(9, 9))
    assert isinstance(found, NoCut)
    assert "every cut of orders-0 behind offset 5" in found.reason


# --- the law ------------------------------------------------------------------------------------------------


@dataclass
class Producer:
    """A producer with at most one transaction; with `epochs` each has an epoch of its own."""

    number: int
    epochs: bool
    epoch: int = 0
    transaction: int | None = None
    wrote: set[int] = field(default_factory=set)
    aborts: bool = False
    pending: list[int] = field(default_factory=list)


@dataclass
class World:
    """Three partitions of a source, their copies, and what was noted of them."""

    logs: list[list[tuple[str, int, int, int]]] = field(default_factory=lambda: [[], [], []])
    reached: list[int] = field(default_factory=lambda: [0, 0, 0])
    records: list[Seen | Look] = field(default_factory=list)
    looking: list[tuple[str, int]] = field(default_factory=list)
    asked: tuple[dict[TopicPartition, int], dict[TopicPartition, int]] = ({}, {})
    transactions: int = 0
    kept: dict[int, bool] = field(default_factory=dict)
    producers: list[Producer] = field(default_factory=list)

    def write(self, producer: Producer, number: int) -> None:
        """Write a record of a new transaction, or of the open one; none while its markers are written."""
        if producer.pending:
            return
        if producer.transaction is None:
            producer.transaction, self.transactions = self.transactions, self.transactions + 1
        producer.wrote.add(number)
        self.logs[number].append(("data", producer.number, producer.epoch, producer.transaction))

    def end(self, producer: Producer, *, aborts: bool) -> None:
        """Decide the open transaction; its markers come later, one by one."""
        if producer.transaction is not None and not producer.pending:
            producer.pending, producer.aborts = sorted(producer.wrote), aborts
            self.kept[producer.transaction] = not aborts
            if producer.epochs:
                producer.epoch += 1

    def mark(self, producer: Producer) -> None:
        """Write one marker; behind the last the transaction is over."""
        if producer.pending:
            number, transaction = producer.pending.pop(), producer.transaction
            assert transaction is not None
            kind = "abort" if producer.aborts else "commit"
            self.logs[number].append((kind, producer.number, producer.epoch, transaction))
            if not producer.pending:
                producer.transaction, producer.wrote = None, set()

    def ask(self) -> None:
        """Ask one partition for its end: every one for the first time, then every one for the second."""
        if not self.looking:
            self.looking = [(which, number) for which in ("before", "after") for number in range(3)]
            self.asked = ({}, {})
        which, number = self.looking.pop(0)
        self.asked[which == "after"][PLACES[number]] = len(self.logs[number])
        if not self.looking:
            self.records.append(Look(RECORDING, len(self.records), {TOPIC: TOPIC_ID}, *self.asked))

    def copy(self, number: int, most: int) -> None:
        """Copy some of what a read_committed consumer sees."""
        log, start = self.logs[number], self.reached[number]
        decided = {entry[3] for entry in log if entry[0] != "data"}
        stable = next((at for at, entry in enumerate(log) if entry[3] not in decided), len(log))
        end = min(start + most, stable)
        began: set[int] = set()
        events = []
        for offset in range(start, end):
            kind, producer, epoch, _ = log[offset]
            if kind != "data":
                began.discard(producer)
                which = EventKind.ABORTED if kind == "abort" else EventKind.COMMITTED
                events.append(Event(offset, producer, epoch, which))
            elif producer not in began:
                began.add(producer)
                events.append(Event(offset, producer, epoch, EventKind.BEGAN))
        self.reached[number] = max(start, end)
        if events:
            self.records.append(Seen(TOPIC, TOPIC_ID, number, RECORDING, start, end, tuple(events)))

    def fence(self) -> None:
        """Begin another recording: what was noted before does not count, nor does the look under way."""
        self.records, self.looking = [], []

    def split(self, cut: Cut) -> list[int]:
        """Return the committed transactions of which the cut has something, and not all."""
        places: defaultdict[int, list[bool]] = defaultdict(list)
        for number, log in enumerate(self.logs):
            for offset, entry in enumerate(log):
                if entry[0] == "data":
                    places[entry[3]].append(offset < cut.offsets[PLACES[number]])
        return [it for it, inside in places.items() if self.kept.get(it, True) and len(set(inside)) > 1]


WEIGHTS = {"write": 8, "end": 4, "mark": 6, "ask": 14, "copy": 8, "fence": 0.03}


def played(dice: Random, *, epochs: bool, steps: int) -> World:
    """Let three producers, a driver that looks and lanes that copy act in any order."""
    world = World()
    producers = [Producer(number, epochs) for number in range(3)]
    for action in dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=steps):
        producer, number = dice.choice(producers), dice.randrange(3)
        if action == "write":
            world.write(producer, number)
        elif action == "end":
            world.end(producer, aborts=dice.random() < 0.2)
        elif action == "mark":
            world.mark(producer)
        elif action == "ask":
            world.ask()
        elif action == "copy":
            world.copy(number, dice.choice([1, 3, 100]))
        else:
            world.fence()
    world.producers = producers
    return world


def cut_of(world: World) -> Cut | NoCut:
    """Return the cut that the world's records tell."""
    known = history(world.records, RECORDING, {TOPIC: TOPIC_ID}, whole=True)
    return find(known, copied(*world.reached))


@pytest.mark.parametrize("epochs", [True, False], ids=["an epoch each", "one epoch"])
@pytest.mark.parametrize("first", range(0, 2_000, 500))
def test_a_cut_splits_no_transaction(first: int, epochs: bool) -> None:
    """Neither with an epoch for each transaction nor with one for all, wherever a copy stops."""
    found = 0
    for seed in range(first, first + 500):
        world = played(Random(seed), epochs=epochs, steps=30 + seed % 200)
        cut = cut_of(world)
        if isinstance(cut, Cut):
            found += 1
            assert [] == world.split(cut), f"seed {seed}"
    assert found > 20, "too few of these worlds have a cut"


@pytest.mark.parametrize("seed", [18448, 23113])
def test_a_cut_does_not_rest_on_the_second_answers_of_a_look(seed: int) -> None:
    """A transaction whose marker lies between the two answers may have records that no second answer covers."""
    world = played(Random(seed), epochs=True, steps=30 + seed % 200)
    cut = cut_of(world)
    assert isinstance(cut, Cut)
    assert [] == world.split(cut)


@given(st.integers(0, 10**9), st.booleans())
@settings(max_examples=200, deadline=None)
def test_nothing_is_left_out_once_all_is_copied(seed: int, epochs: bool) -> None:
    """The cut is everything, if every transaction has ended and the copy has reached a look behind that."""
    world = played(Random(seed), epochs=epochs, steps=100)
    for producer in world.producers:
        world.end(producer, aborts=False)
        for _ in range(3):
            world.mark(producer)
    while world.looking:
        world.ask()
    for _ in range(6):
        world.ask()
    for number in range(3):
        world.copy(number, 1_000)
    cut = cut_of(world)
    assert isinstance(cut, Cut)
    assert (copied(*(len(log) for log in world.logs)), 0) == (cut.offsets, cut.left_out)

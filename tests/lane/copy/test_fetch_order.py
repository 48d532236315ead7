"""What a lane that is behind asks for: laws of the choice, and of a lane that copies a whole backlog by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.fetch_order import (
    LIVE_SHARE,
    SHARED_TURN,
    SMALL_SHARE,
    AnswerSize,
    Backlog,
    FetchOrder,
    portions,
)

SIZE = AnswerSize(whole=1600, partition=400)
SMALL = SIZE.whole // SMALL_SHARE


def place(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def backlogs(*given_: tuple[int, float]) -> list[Backlog]:
    """Partitions 0, 1, ... with these RPOs (seconds) and bytes left, longest wait first."""
    return [Backlog(place(n), rpo, left) for n, (rpo, left) in enumerate(given_)]


WAITING = st.lists(
    st.tuples(st.sampled_from([10, 60, 300]), st.integers(1, 3000) | st.integers(1, SMALL)), max_size=30
).map(lambda them: backlogs(*them))

Sizes = Mapping[TopicPartition, int]


class TestPortions:
    """portions: pure."""

    @given(WAITING, st.booleans(), st.booleans())
    def test_all_that_fits_is_asked_for_as_if_there_were_no_order(
        self, waiting: list[Backlog], live: bool, shared: bool
    ) -> None:
        """Nothing is chosen exactly if an answer has room for all of it, and for what is live."""
        budget = 1200 if live else 1600
        fits = sum(min(it.left_bytes, 400) for it in waiting) <= budget
        assert fits == (portions(waiting, SIZE, live=live, shared=shared) is None)

    @given(WAITING, st.booleans(), st.booleans())
    def test_the_budget_is_kept(self, waiting: list[Backlog], live: bool, shared: bool) -> None:
        """A quarter for what is nearly live, and the rest for the others; a single one may be larger."""
        chosen = portions(waiting, SIZE, live=live, shared=shared) or {}
        small = [it.left_bytes for it in waiting if it.partition in chosen and it.left_bytes <= SMALL]
        large = [
            min(it.left_bytes, chosen[it.partition])
            for it in waiting
            if it.partition in chosen and it.left_bytes > SMALL
        ]
        assert sum(small) + sum(large) <= SIZE.whole
        assert not live or len(large) <= 1 or sum(large) <= SIZE.whole - SIZE.whole // LIVE_SHARE

    @given(WAITING, st.booleans())
    def test_urgent_first(self, waiting: list[Backlog], live: bool) -> None:
        """If one with a larger RPO is chosen, so is each with a smaller one; among equals the longest wait decides."""
        chosen = portions(waiting, SIZE, live=live) or {}
        large = [it for it in waiting if it.left_bytes > SMALL]
        order = sorted(large, key=lambda it: it.rpo_seconds)
        taken = [it.partition in chosen for it in order]
        assert sorted(taken, reverse=True) == taken

    @given(WAITING, st.booleans())
    def test_a_shared_request_goes_by_the_wait_alone(self, waiting: list[Backlog], live: bool) -> None:
        """Whoever has waited longest is chosen, whatever its RPO."""
        chosen = portions(waiting, SIZE, live=live, shared=True)
        large = [it.partition in chosen for it in waiting if it.left_bytes > SMALL] if chosen else []
        assert sorted(large, reverse=True) == large
        assert chosen is None or not large or large[0]

    @given(WAITING, st.booleans(), st.booleans())
    def test_something_is_always_chosen(self, waiting: list[Backlog], live: bool, shared: bool) -> None:
        """No request of a lane that is behind leaves out everything that is."""
        assert portions(waiting, SIZE, live=live, shared=shared) != {}

    @given(WAITING, st.booleans(), st.data())
    def test_what_was_not_served_stays_chosen_and_makes_room_for_one_more(
        self, waiting: list[Backlog], live: bool, data: st.DataObject
    ) -> None:
        """So it comes to the head of the broker's order, and holds up nobody if it never can be served."""
        stuck = data.draw(
            st.sets(st.sampled_from([it.partition for it in waiting])) if waiting else st.just(set())
        )
        unserved = dict.fromkeys(stuck, SIZE.partition)
        chosen = portions(waiting, SIZE, live=live, unserved=unserved)
        if chosen is not None:
            assert unserved.keys() <= chosen.keys()
            assert unserved.keys() < chosen.keys() or len(stuck) == len(waiting)

    def test_what_is_nearly_live_goes_with_every_request(self) -> None:
        """It costs next to nothing, whatever its RPO."""
        waiting = backlogs((10, 5000), (10, 5000), (10, 5000), (10, 5000), (300, SMALL), (300, SMALL + 1))
        assert {place(0): 400, place(1): 400, place(2): 400, place(4): 400} == portions(
            waiting, SIZE, live=True
        )

    def test_what_is_nearly_live_has_a_quarter(self) -> None:
        """The rest of many small backlogs wait for their tier."""
        waiting = backlogs(*[(300, SMALL)] * 20, *[(10, 5000)] * 4)
        small = dict.fromkeys(map(place, range(16)), 400)
        assert small | dict.fromkeys(map(place, range(20, 23)), 400) == portions(waiting, SIZE, live=False)

    def test_one_more_beside_those_that_are_not_served(self) -> None:
        """They fill the answer, and may never be served."""
        waiting = backlogs(*[(300, 5000)] * 4, (10, 5000), (10, 5000))
        stuck = dict.fromkeys(map(place, range(4)), 400)
        assert stuck | {place(4): 400} == portions(waiting, SIZE, live=False, unserved=stuck)

    def test_a_few_urgent_partitions_fill_the_answer(self) -> None:
        """Else the others would have most of it, for want of urgent partitions."""
        waiting = backlogs((300, 5000), (300, 5000), (300, 5000), (300, 5000), (10, 5000))
        assert {place(4): 1600} == portions(waiting, SIZE, live=False)
        assert {place(4): 1200} == portions(waiting, SIZE, live=True)

    def test_what_the_urgent_leave_free_goes_to_the_others(self) -> None:
        """No answer is smaller than it has to be."""
        waiting = backlogs((300, 5000), (300, 5000), (300, 5000), (10, 500), (10, 100))
        assert {place(3): 1500, place(4): 1500, place(0): 400, place(1): 400} == portions(
            waiting, SIZE, live=False
        )

    def test_shares_of_a_throttled_lane(self) -> None:
        """A partition is asked for no more than the answer has room for: the rest is for what is live."""
        tiny = AnswerSize(whole=400, partition=400)
        assert {place(0): 300} == portions(backlogs((10, 5000), (10, 5000)), tiny, live=True)


@dataclass
class Broker:
    """A leader with one fetch session: it fills an answer in the order in which it served partitions last.

    `logs` are the bytes of each partition's batches that are not read yet; a batch has `offsets` offsets.
    """

    logs: dict[TopicPartition, list[int]]
    size: AnswerSize
    offsets: int = 1
    session: list[TopicPartition] = field(default_factory=list)

    def answer(self, asked: Sizes) -> dict[TopicPartition, list[int]]:
        """Return the batches served; the first partition's first batch is given whatever its size."""
        self.session = [it for it in self.session if it in asked]
        self.session += [it for it in asked if it not in self.session]
        room, served = self.size.whole, {}
        for it in self.session:
            limit, taken = min(room, asked[it]), []
            for batch in self.logs[it]:
                if sum(taken) + batch > limit and (served or taken):
                    break
                taken.append(batch)
            if taken:
                served[it] = taken
                del self.logs[it][: len(taken)]
                room -= sum(taken)
        self.session = [it for it in self.session if it not in served] + list(served)
        return served


@dataclass
class World:
    """A lane that reads from one broker by the order of its fetches."""

    broker: Broker
    rpo: dict[TopicPartition, int]

    def __post_init__(self) -> None:
        size = self.broker.size
        self.order = FetchOrder(max_bytes=size.whole, partition_max_bytes=size.partition)

    def answers(self, *, ends: bool) -> Iterator[dict[TopicPartition, list[int]]]:
        """Yield answers; with `ends` as in a cycle, whose ranges end and are not asked for any more."""
        urgent_first = sorted(self.broker.logs, key=self.rpo.__getitem__)
        while wanted := [it for it in urgent_first if not ends or self.broker.logs[it]]:
            asked = self.order.choose(1, wanted) or dict.fromkeys(wanted, self.broker.size.partition)
            served = self.broker.answer(asked)
            for it in asked:
                read, left = (
                    len(them) * self.broker.offsets for them in (served.get(it, ()), self.broker.logs[it])
                )
                self.order.answered(it, self.rpo[it], size=sum(served.get(it, ())), read=read, left=left)
            yield served


@st.composite
def worlds(draw: st.DrawFn, batch: st.SearchStrategy[int]) -> World:
    """Some partitions of two tiers, with batches of these sizes."""
    logs = draw(st.lists(st.lists(batch, max_size=25), min_size=1, max_size=10))
    rpos = draw(st.lists(st.sampled_from([10, 300]), min_size=len(logs), max_size=len(logs)))
    broker = Broker({place(n): list(log) for n, log in enumerate(logs)}, SIZE, draw(st.integers(1, 50)))
    return World(broker, {place(n): rpo for n, rpo in enumerate(rpos)})


class TestFetchOrder:
    """FetchOrder: over a whole backlog."""

    @given(worlds(st.integers(1, 2500)), st.lists(st.integers(1, 2500), max_size=3))
    def test_nobody_starves(self, world: World, live: list[int]) -> None:
        """Whatever the batches, also those larger than an answer, each partition is served after a bounded wait.

        In every so many answers there is a shared one, which serves another partition each time, or the one that
        is not served comes to the head of the broker's order.  Meanwhile live partitions get more with each answer.
        """
        streams = [place(100 + n) for n in range(len(live))]
        for it in streams:
            world.broker.logs[it], world.rpo[it] = [], 10
        behind = {it for it, log in world.broker.logs.items() if log}
        bound = SHARED_TURN * (2 * len(world.broker.logs) + 2)
        waited: Counter[TopicPartition] = Counter()
        for served in world.answers(ends=False):
            waited.update(behind - served.keys())
            for it in served:
                waited[it] = 0
            assert max(waited.values(), default=0) <= bound
            behind = {it for it in behind if world.broker.logs[it]}
            if not behind:
                return
            for it, size in zip(streams, live, strict=True):
                world.broker.logs[it].append(size)

    @given(worlds(st.integers(20, 60)))
    def test_the_urgent_are_done_while_most_of_the_others_is_still_to_do(self, world: World) -> None:
        """Of what is copied until then, at most a third is not urgent: the shared answers, and the first one."""
        urgent = {it for it, rpo in world.rpo.items() if rpo == 10}
        before = {it: sum(log) for it, log in world.broker.logs.items()}
        if not any(before[it] for it in urgent):
            return
        answers = 0
        for _ in world.answers(ends=True):
            answers += 1
            if not any(world.broker.logs[it] for it in urgent):
                break
        done = {it: before[it] - sum(world.broker.logs[it]) for it in before}
        others = sum(size for it, size in done.items() if it not in urgent)
        most = SIZE.whole * (1 + answers // SHARED_TURN) + answers * (SIZE.whole // LIVE_SHARE)
        assert others <= most + sum(done[it] for it in urgent) / SHARED_TURN

    @given(worlds(st.just(10)), st.integers(1, 4), st.integers(1, 9))
    def test_what_is_live_is_in_every_answer(self, world: World, streams: int, batches: int) -> None:
        """Once the first answer has told who is behind, a live record waits for nobody's backlog."""
        live = [place(100 + n) for n in range(streams)]
        for it in live:
            world.broker.logs[it], world.rpo[it] = [], 300
        for turn, served in enumerate(world.answers(ends=False)):
            assert turn < 2 or all(len(served[it]) == batches for it in live)
            if turn > 200:
                return
            for it in live:
                world.broker.logs[it] += [10] * batches

    @given(worlds(st.integers(1, 2500)))
    def test_a_cycle_ends(self, world: World) -> None:
        """Ranges that end are all read to their end."""
        for _ in world.answers(ends=True):
            pass
        assert not any(world.broker.logs.values())

    def test_nothing_is_chosen_at_rest(self) -> None:
        """A lane that is not behind asks for everything, as ever."""
        order = FetchOrder(max_bytes=1600, partition_max_bytes=400)
        for n in range(10):
            order.answered(place(n), 10, size=400, read=4, left=0)
        assert order.choose(1, [place(n) for n in range(10)]) is None

    def test_shares_of_an_endless_backlog(self) -> None:
        """Equals take turns, and of 160 answers the others have the shared 40."""
        rpo = {place(n): 10 if n < 8 else 300 for n in range(12)}
        world = World(Broker({it: [100] * 10_000 for it in rpo}, SIZE), rpo)
        served: Counter[TopicPartition] = Counter()
        for turn, answer in enumerate(world.answers(ends=False)):
            if turn:  # the first answer is of those who were named first
                served.update({it: sum(batches) for it, batches in answer.items()})
            if turn == 160:
                break
        assert dict.fromkeys(list(rpo)[:8], 24_000) | dict.fromkeys(list(rpo)[8:], 16_000) == served

    def test_live_partitions_are_asked_for_beside_those_chosen(self) -> None:
        """With the usual size."""
        order = FetchOrder(max_bytes=1600, partition_max_bytes=400)
        for n, left in enumerate([0, 0, 5000, 5000, 5000, 5000]):
            order.answered(place(n), 10 * n, size=400, read=4, left=left)
        assert {place(0): 400, place(1): 400, place(2): 1200} == order.choose(1, list(map(place, range(6))))

    def test_a_partition_that_fitted_and_was_not_served_stays_chosen(self) -> None:
        """Else it would be the last in the broker's order again, whenever there was no need to choose."""
        order = FetchOrder(max_bytes=1600, partition_max_bytes=400)
        partitions = list(map(place, range(5)))
        order.answered(place(0), 300, size=400, read=4, left=4)
        assert order.choose(1, partitions) is None
        for it in partitions[1:]:
            order.answered(it, 10, size=400, read=4, left=5000)
        assert set(partitions[:4]) == set(order.choose(1, partitions) or ())

    def test_leaders_have_turns_of_their_own(self) -> None:
        """Else of four leaders that are asked in turn one would have all the shared requests."""
        order = FetchOrder(max_bytes=400, partition_max_bytes=400)
        found: dict[int, list[bool]] = {0: [], 1: []}

        def left(number: int, read: int) -> None:
            order.answered(place(number), 10 if number < 2 else 300, size=400, read=read, left=1000)

        for number in range(4):
            left(number, 4)
        for turn in range(2 * SHARED_TURN):
            node = turn % 2
            asked = order.choose(node, {place(node), place(node + 2)})
            assert asked is not None
            found[node].append(place(node + 2) in asked)
            for it in asked:
                left(it.partition, 4)
        assert {0: [False, False, False, True], 1: [False, False, False, True]} == found

    def test_a_slow_target_leaves_the_order_as_it_is(self) -> None:
        """An answer for it holds one partition: the urgent one is asked for, not all that would fit otherwise."""
        order = FetchOrder(max_bytes=1600, partition_max_bytes=400)
        for number, rpo in enumerate((300, 300, 10)):
            order.answered(place(number), rpo, size=100, read=1, left=4)
        wanted = [place(number) for number in range(3)]
        order.limit(400)
        assert {place(2): 400} == order.choose(1, wanted)

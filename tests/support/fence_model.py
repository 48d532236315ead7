"""The fence as a state machine small enough to walk through completely (docs/decisions/0001-fence.md).

Two drivers, two lanes, two partitions.  A driver is a program of steps; `start` hands each unfinished partition to
any lane and lets go: tasks run by themselves and outlive their driver.  A task writes one record, commits data and
progress together, and so on.  The broker keeps an open transaction per lane and knows who initialised the lane last:
only that driver and the tasks it started since are served, all others are refused.

Drivers of two names for one target have lanes of their own and fence nothing of each other's; what they share is the
ledger's log, where each name's claim has its place (docs/decisions/0022-identity.md).

At every state each driver, each task and the broker (which times an open transaction out) may make the next move;
a driver may also crash and begin anew, `restarts` times, also after it has finished.  What crashes for good needs
no move of its own: it is the walk in which it is never chosen again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

# Steps.  `init` and `read` name a lane or a partition; the gate is a transaction through lane 0.
INIT_0, INIT_1 = "init 0", "init 1"
GATE_WRITE, GATE_COMMIT = "gate write", "gate commit"
READ_0, READ_1 = "read 0", "read 1"
START = "start"
LOOK, CLAIM_WRITE, CLAIM_COMMIT, CHECK = "look", "claim write", "claim commit", "check"
INIT_THEIRS_0, INIT_THEIRS_1 = "init theirs 0", "init theirs 1"
MOVE_WRITE, MOVE_COMMIT = "move write", "move commit"

START_KNOWN, LOOK_BORN, START_BORN = "start known", "look at born", "start born"

FENCE = (INIT_0, INIT_1, GATE_WRITE, GATE_COMMIT, READ_0, READ_1, START)
NAMED = (
    INIT_0, LOOK, INIT_1, CLAIM_WRITE, CLAIM_COMMIT, CHECK, GATE_WRITE, GATE_COMMIT, READ_0, READ_1, CHECK, START,
)  # fmt: skip
"""The fence of a driver that knows its name; CLAIM_WRITE and CLAIM_COMMIT do nothing where LOOK saw a claim."""

MOVED = (INIT_THEIRS_0, INIT_THEIRS_1, MOVE_WRITE, MOVE_COMMIT, *NAMED)
"""Moving the claim (`twinlog migrate claim`) to one's own name: through the gate of the name that has it."""

BORN = (INIT_0, INIT_1, GATE_WRITE, GATE_COMMIT, READ_0, START_KNOWN, LOOK_BORN, START_BORN)
"""A driver that follows: partition 1 is born while a lane copies partition 0 (twinlog.follow.births)."""

_GATE_RECORD = (-1, -1)
_LANES_OF_A_NAME = 2


class Program(NamedTuple):
    """What a driver does, step by step, under which name, and through how many lanes its tasks write.

    `born_on` is the lane that a born partition is given; the other one copies what was there.

    Faults: `blind` checks only what is committed, `moves_by_itself` moves a claim through its own gate.
    """

    steps: tuple[str, ...] = FENCE
    lanes: int = 2
    tasks_init: bool = False
    name: int = 0
    blind: bool = False
    moves_by_itself: bool = False
    born_on: int = 1

    def lane(self, number: int) -> int:
        """Which of all lanes one of this name is."""
        return _LANES_OF_A_NAME * self.name + number

    def lane_of_others(self, number: int) -> int:
        """Which of all lanes one of the other name is."""
        return _LANES_OF_A_NAME * (1 - self.name) + number


class Claim(NamedTuple):
    """A claim in the ledger's log, by whose lane it was written; one that `moves` takes all before it back."""

    name: int
    lane: int
    committed: bool = False
    moves: bool = False


class Task(NamedTuple):
    """A writer on a lane: the (partition, offset) pairs to copy, and whether the first one is written."""

    lane: int
    work: tuple[tuple[int, int], ...]
    written: bool = False
    must_init: bool = False


class Driver(NamedTuple):
    """A driver: its next step, which lanes it was the last to init, the progress it read, crashes left.

    `claims` says that it saw a ledger that nobody has claimed.
    """

    step: int
    holds: tuple[bool, ...]
    seen: tuple[int, int]
    restarts: int
    claims: bool = False


class State(NamedTuple):
    """Everything: what each lane's transaction holds, and the committed source offsets of each partition.

    Only tasks that the broker still serves are kept: the others can but die.
    """

    lanes: tuple[tuple[tuple[int, int], ...], ...]
    logs: tuple[tuple[int, ...], ...]
    drivers: tuple[Driver, ...]
    tasks: tuple[Task, ...]
    ledger: tuple[Claim, ...] = ()


class Walk(NamedTuple):
    """What was found: how many states, whether all was ever copied, and the shortest way to a wrong log."""

    states: int
    copied_all: bool
    violation: tuple[str, ...]


def walk(programs: tuple[Program, Program], *, restarts: int = 1, records: tuple[int, int] = (1, 1)) -> Walk:
    """Visit every reachable state, breadth first; stop at the first log that is not 0, 1, 2 ... in order."""
    first = State(((),) * (2 * _LANES_OF_A_NAME), ((), ()), (_begin(restarts),) * 2, ())
    came_from: dict[State, tuple[State, str] | None] = {first: None}
    frontier, copied_all = [first], False
    while frontier:
        following = []
        for state in frontier:
            copied_all = copied_all or tuple(map(len, state.logs)) == records
            for name, after in moves(state, programs, records):
                if after in came_from:
                    continue
                came_from[after] = state, name
                if any(log != tuple(range(len(log))) for log in after.logs):
                    return Walk(len(came_from), copied_all, _way_to(after, came_from))
                following.append(after)
        frontier = following
    return Walk(len(came_from), copied_all, ())


def moves(
    state: State, programs: tuple[Program, Program], records: tuple[int, int]
) -> Iterator[tuple[str, State]]:
    """Every next move anybody can make, with its name."""
    for number, (driver, program) in enumerate(zip(state.drivers, programs, strict=True)):
        if driver.step < len(program.steps):
            step = program.steps[driver.step]
            for after in _driver_step(state, number, program, step, records):
                yield f"driver {number + 1}: {step}", after
        if driver.restarts and driver.step:
            yield f"driver {number + 1} begins anew", _with_driver(state, number, _begin(driver.restarts - 1))
    for index, task in enumerate(state.tasks):
        others = state.tasks[:index] + state.tasks[index + 1 :]
        partition, offset = task.work[0]
        what = (
            "inits" if task.must_init else f"{'commits' if task.written else 'writes'} {partition}@{offset}"
        )
        yield f"task of lane {task.lane}: {what}", _task_step(state, task, others)
    for number, lane in enumerate(state.lanes):
        if lane:
            yield f"transaction of lane {number} times out", _init(state, number)


def _driver_step(
    state: State, number: int, program: Program, step: str, records: tuple[int, int]
) -> Iterator[State]:
    driver = state.drivers[number]
    onward = driver._replace(step=driver.step + 1)
    if step in {INIT_0, INIT_1, INIT_THEIRS_0, INIT_THEIRS_1}:
        number_of = program.lane if step in {INIT_0, INIT_1} else program.lane_of_others
        lane = number_of(int(step[-1]))
        holds = _set(driver.holds, lane, True)
        yield _with_driver(_init(state, lane), number, onward._replace(holds=holds))
    elif step in {READ_0, READ_1}:
        partition = int(step[-1])
        seen = _set(driver.seen, partition, len(state.logs[partition]))
        yield _with_driver(state, number, onward._replace(seen=seen))
    elif step == LOOK_BORN:
        if not state.logs[1]:  # else it fences anew, and begins with that
            yield _with_driver(state, number, onward)
    elif step in {START, START_KNOWN, START_BORN}:
        for plan in _plans(driver, program, records, step):
            placed = [task._replace(lane=program.lane(task.lane)) for task in plan]
            tasks = [task for task in placed if task.must_init or driver.holds[task.lane]]
            running = tuple(sorted((*state.tasks, *tasks)))
            yield _with_driver(state._replace(tasks=running), number, onward)
    elif step == LOOK:
        owner = _owner(state.ledger)
        if owner in {None, program.name}:  # else it stops here, and has written nothing
            yield _with_driver(state, number, onward._replace(claims=owner is None))
    elif step == CHECK:
        if _owner(state.ledger) == program.name and (
            program.blind or not _open_before(state.ledger, program)
        ):
            yield _with_driver(state, number, onward)
    elif step in {CLAIM_WRITE, CLAIM_COMMIT} and not driver.claims:
        yield _with_driver(state, number, onward)
    else:
        yield from _gate_step(state, number, program, step, onward)


def _gate_step(state: State, number: int, program: Program, step: str, onward: Driver) -> Iterator[State]:
    """Write or commit through a gate lane; if it is refused, this driver stops here."""
    moves = step in {MOVE_WRITE, MOVE_COMMIT}
    through_theirs = moves and not program.moves_by_itself
    gate = program.lane_of_others(0) if through_theirs else program.lane(0)
    if not state.drivers[number].holds[gate]:
        return
    writes = step in {GATE_WRITE, CLAIM_WRITE, MOVE_WRITE}
    ledger = state.ledger
    if step in {CLAIM_WRITE, MOVE_WRITE}:
        ledger = (*ledger, Claim(program.name, gate, moves=moves))
    elif step in {CLAIM_COMMIT, MOVE_COMMIT}:
        ledger = tuple(it._replace(committed=True) if it.lane == gate else it for it in ledger)
    lanes = _set(state.lanes, gate, (_GATE_RECORD,) if writes else ())
    yield _with_driver(state._replace(lanes=lanes, ledger=ledger), number, onward)


def _live(ledger: tuple[Claim, ...]) -> list[Claim]:
    """Claims that are committed and were not taken back, in the order of the log."""
    live: list[Claim] = []
    for claim in ledger:
        if claim.committed:
            live = [claim] if claim.moves else [*live, claim]
    return live


def _owner(ledger: tuple[Claim, ...]) -> int | None:
    return next((claim.name for claim in _live(ledger)), None)


def _open_before(ledger: tuple[Claim, ...], program: Program) -> bool:
    """Whether another's claim lies before the first one that counts, and is not decided."""
    first = next((ledger.index(claim) for claim in _live(ledger)), len(ledger))
    return any(not claim.committed and claim.name != program.name for claim in ledger[:first])


def _plans(
    driver: Driver, program: Program, records: tuple[int, int], step: str = START
) -> Iterator[list[Task]]:
    """Every way to hand what is left of each partition to a lane: partitions move freely between plans."""
    left = [
        [(partition, offset) for offset in range(driver.seen[partition], count)]
        for partition, count in enumerate(records)
    ]
    if step == START:
        choices = set(product(range(program.lanes), repeat=len(left)))
    else:
        partition, lane = (1, program.born_on) if step == START_BORN else (0, 1 - program.born_on)
        left, choices = [left[partition]], {(lane,)}
    for chosen in choices:
        tasks = []
        for lane in range(program.lanes):
            work = tuple(item for items, to in zip(left, chosen, strict=True) if to == lane for item in items)
            if work:
                tasks.append(Task(lane, work, must_init=program.tasks_init))
        yield tasks


def _task_step(state: State, task: Task, others: tuple[Task, ...]) -> State:
    if task.must_init:
        after = _init(state._replace(tasks=others), task.lane)
        return after._replace(tasks=tuple(sorted((*after.tasks, task._replace(must_init=False)))))
    held = state.lanes[task.lane]
    if not task.written:
        lanes = _set(state.lanes, task.lane, (*held, task.work[0]))
        return state._replace(lanes=lanes, tasks=tuple(sorted((*others, task._replace(written=True)))))
    logs = state.logs
    for partition, offset in held:
        logs = _set(logs, partition, (*logs[partition], offset))
    rest = task._replace(work=task.work[1:], written=False)
    tasks = tuple(sorted((*others, rest))) if rest.work else others
    return state._replace(lanes=_set(state.lanes, task.lane, ()), logs=logs, tasks=tasks)


def _init(state: State, number: int) -> State:
    """InitProducerId: the open transaction is aborted, and everybody who wrote on the lane is refused from now on.

    The broker does the same when a transaction times out.
    """
    drivers = tuple(driver._replace(holds=_set(driver.holds, number, False)) for driver in state.drivers)
    served = tuple(task for task in state.tasks if task.lane != number or task.must_init)
    ledger = tuple(claim for claim in state.ledger if claim.committed or claim.lane != number)
    return state._replace(lanes=_set(state.lanes, number, ()), drivers=drivers, tasks=served, ledger=ledger)


def _begin(restarts: int) -> Driver:
    return Driver(0, (False,) * (2 * _LANES_OF_A_NAME), (0, 0), restarts)


def _with_driver(state: State, number: int, driver: Driver) -> State:
    return state._replace(drivers=_set(state.drivers, number, driver))


def _set(items, index, item):
    return (*items[:index], item, *items[index + 1 :])


def _way_to(state: State, came_from: dict[State, tuple[State, str] | None]) -> tuple[str, ...]:
    names = []
    while (step := came_from[state]) is not None:
        state, name = step
        names.append(name)
    return tuple(reversed(names))

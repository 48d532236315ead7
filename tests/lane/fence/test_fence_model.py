"""The fence, walked through completely: no interleaving of it copies a record twice, and each rule is needed."""

import pytest
from fence_model import (
    BORN,
    CHECK,
    FENCE,
    GATE_COMMIT,
    GATE_WRITE,
    INIT_0,
    INIT_1,
    INIT_THEIRS_1,
    LOOK_BORN,
    MOVED,
    NAMED,
    READ_0,
    READ_1,
    START,
    START_BORN,
    Program,
    walk,
)

SAFE = Program()


def without(*steps: str) -> Program:
    return Program(tuple(step for step in FENCE if step not in steps))


@pytest.mark.parametrize(("records", "restarts"), [((1, 1), 1), ((2, 1), 1), ((2, 2), 2)])
def test_the_fence_never_copies_a_record_twice(records, restarts, record_property):
    """Two drivers, two lanes, zombie tasks, crashes and restarts anywhere: every log stays 0, 1, 2 ..."""
    found = walk((SAFE, SAFE), records=records, restarts=restarts)
    record_property("states", found.states)
    print(f"{found.states} states")
    assert found.violation == ()
    assert found.copied_all


def test_a_driver_with_fewer_lanes_is_safe_when_it_inits_all_lanes_ever_used():
    """What the lane count in the ledger is for."""
    found = walk((SAFE, Program(lanes=1)))
    assert (found.violation, found.copied_all) == ((), True)


BROKEN = {
    # Each driver ends up owning one lane, and both copy the same partition.
    "no gate": (without(GATE_WRITE, GATE_COMMIT),) * 2,
    # The gate proves nothing about lanes initialised after it.
    "gate before the other lane": (Program((INIT_0, GATE_WRITE, GATE_COMMIT, INIT_1, READ_0, READ_1, START)),) * 2,
    # What was read may have grown by the time the old writers are fenced.
    "read before the fence": (Program((READ_0, READ_1, INIT_0, INIT_1, GATE_WRITE, GATE_COMMIT, START)),) * 2,
    # The other driver's task on the lane left out goes on writing.
    "lane left out": (SAFE, Program((INIT_0, GATE_WRITE, GATE_COMMIT, READ_0, READ_1, START), lanes=1)),
    # A zombie takes its lane back, and copies by an old plan.
    "tasks that init": (Program(tasks_init=True),) * 2,
}  # fmt: skip


def test_the_way_to_the_double_copy_without_a_gate():
    """The shortest story, as docs/decisions/0001-fence.md tells it: inits interleave lane by lane."""
    story = walk(BROKEN["no gate"]).violation
    drivers = [move for move in story if "init" in move]
    first, second = (
        ("driver 1", "driver 2") if drivers[0].startswith("driver 1") else ("driver 2", "driver 1")
    )
    assert f"{second}: init 0" in drivers
    owners = [
        next(move[:8] for move in reversed(drivers) if move.endswith(f"init {lane}")) for lane in (0, 1)
    ]
    assert sorted(owners) == sorted([first, second])


UNCHECKED = tuple(step for step in NAMED if step != CHECK)
BROKEN_CLAIMS = {
    "nobody checks": (Program(UNCHECKED), Program(UNCHECKED, name=1)),
    # The claim that lies before one's own is open, and is committed after the check.
    "open claims are not seen": (Program(NAMED, blind=True), Program(NAMED, name=1, blind=True)),
    # The owner goes on: nothing of its lanes was fenced.
    "a claim is moved beside its owner": (
        Program(NAMED),
        Program((INIT_0, *MOVED[2:]), name=1, moves_by_itself=True),
    ),
    "a lane of the owner is left out": (
        Program(NAMED),
        Program(tuple(step for step in MOVED if step != INIT_THEIRS_1), name=1),
    ),
}


class TestTwoNames:
    """One target by two names: lanes of their own, one state."""

    def test_the_fence_alone_copies_everything_twice(self):
        """Neither fences a lane of the other: what the claim is for."""
        assert walk((Program(name=0), Program(name=1))).violation

    @pytest.mark.parametrize(("records", "restarts"), [((1, 1), 1), ((2, 1), 0)])
    def test_of_two_names_one_copies(self, records, restarts):
        """Both begin on a ledger that nobody has claimed, at once, with crashes anywhere."""
        found = walk((Program(NAMED), Program(NAMED, name=1)), records=records, restarts=restarts)
        print(f"{found.states} states")
        assert (found.violation, found.copied_all) == ((), True)

    def test_two_drivers_of_one_name_are_as_before(self):
        """The claim of the one is the claim of the other."""
        found = walk((Program(NAMED), Program(NAMED)))
        assert (found.violation, found.copied_all) == ((), True)

    def test_a_claim_moves_while_its_owner_copies(self):
        """Through the owner's gate: whoever copies under the old name is fenced, and does not come back."""
        found = walk((Program(NAMED), Program(MOVED, name=1)))
        print(f"{found.states} states")
        assert (found.violation, found.copied_all) == ((), True)


BROKEN_BIRTHS = {
    # Another driver has copied it since, and has let its lanes go.
    "nobody looks at the copy": (Program(tuple(step for step in BORN if step != LOOK_BORN)),) * 2,
    # Another driver has fenced since it looked: the lane is not its own any more, and it takes it back.
    "a lane is inited for it": (Program((*BORN[:-1], INIT_1, START_BORN)), SAFE),
}


class TestBirths:
    """A partition that is born while lanes copy gets a lane of the last fence, without another one."""

    @pytest.mark.parametrize("other", [SAFE, Program(BORN)], ids=["fences", "bears"])
    @pytest.mark.parametrize("born_on", [0, 1])
    @pytest.mark.parametrize(("records", "restarts"), [((1, 1), 1), ((1, 2), 1)])
    def test_it_is_copied_once(self, other, born_on, records, restarts):
        """Beside any other driver, with crashes anywhere, on either lane."""
        found = walk((Program(BORN, born_on=born_on), other), records=records, restarts=restarts)
        print(f"{found.states} states")
        assert (found.violation, found.copied_all) == ((), True)


EVERY_FAULT = [*BROKEN.items(), *BROKEN_CLAIMS.items(), *BROKEN_BIRTHS.items()]


@pytest.mark.parametrize("programs", [pytest.param(it, id=name) for name, it in EVERY_FAULT])
def test_without_any_one_rule_a_record_is_copied_twice(programs):
    """The model finds each fault, so it would find one in the fence, in the claim and in the births."""
    found = walk(programs)
    print(f"{found.states} states", *found.violation, sep="\n  ")
    assert found.violation

"""The moves of a failover keep their laws, whoever makes them in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import FencedError, TerminalError, TwinlogError
from twinlog.formats.ledger.records import HANDOVER, FlowPhase, FlowState
from twinlog.formats.ledger.recovery import (
    FAILBACK,
    DeniedWrite,
    JournalEntry,
    RecoveryRun,
    RunState,
    StepState,
)
from twinlog.judge.check import Mode
from twinlog.procedure import StepName
from twinlog.recovery import homeward, transitions
from twinlog.recovery.failover import STEPS
from twinlog.recovery.legal import TRANSITIONS, require_legal
from twinlog.recovery.procedure import Actor, left
from twinlog.recovery.transitions import Move
from twinlog.state.ledger import Ledger

FLOW = "A->B"
JO, ANN = Actor("jo", "process-1"), Actor("ann", "process-2")
ENTRY = JournalEntry("gate", StepState.DONE, 5, 0.1, "jo", "ready")


def after(ledger: Ledger, move: Move) -> Ledger:
    """The ledger once a move is written."""
    gone = {it.key() for it in move.forgotten}
    known = {it.run: it for it in ledger.recoveries} | {it.run: it for it in (move.run, move.ended) if it}
    kept = tuple(it for it in known.values() if it.key() not in gone)
    state = move.state or ledger.flow_state
    return replace(ledger, recoveries=kept, flow_state=None if state and state.key() in gone else state)


def begun(mode: Mode = Mode.PLANNED, actor: Actor = JO) -> Ledger:
    return after(Ledger(), transitions.begin(FLOW, Ledger(), mode, actor, "run-1", 1))


def promoted(ledger: Ledger, actor: Actor = JO) -> Ledger:
    run = transitions.require_held(FLOW, ledger, actor, "run-1")
    move = transitions.promote(run, ledger, ENTRY, at_risk_records=0, known=0, rpo_seconds=0.0)
    return after(ledger, move)


def held(ledger: Ledger, actor: Actor, *, homeward: bool = False) -> RecoveryRun:
    """The newest run, if the process holds it."""
    return transitions.require_held(FLOW, ledger, actor, run_of(ledger, homeward=homeward))


MOVES = {
    "begin": lambda ledger, it: transitions.begin(FLOW, ledger, Mode.PLANNED, it, f"run-{it.by}", 2),
    "begin-dead": lambda ledger, it: transitions.begin(
        FLOW, ledger, Mode.SOURCE_DEAD, it, f"run-{it.by}", 100_000
    ),
    "note": lambda ledger, it: transitions.note(held(ledger, it), ENTRY),
    "deny": lambda ledger, it: transitions.deny(held(ledger, it), (DeniedWrite("orders", "User:*", "*"),)),
    "promote": lambda ledger, it: transitions.promote(
        held(ledger, it), ledger, ENTRY, at_risk_records=0, known=0, rpo_seconds=0.0
    ),
    "retake": lambda ledger, it: transitions.retake(FLOW, ledger, it, 100_000),
    "clear": lambda ledger, it: transitions.clear(held(ledger, it), ENTRY, ("e.json", "sha")),
    "abort": lambda ledger, it: transitions.abort(FLOW, ledger, it, "why", 4),
    "follow": lambda ledger, it: transitions.follow(FLOW, ledger, it, "why", 4),
    "set-out": lambda ledger, it: homeward.set_out(
        FLOW, ledger, it, f"home-{it.by}-{len(ledger.recoveries)}", 100_000
    ),
    "arrive": lambda ledger, it: homeward.arrive(
        held(ledger, it, homeward=True), ledger, ENTRY, nothing_lost=True
    ),
    "lend": lambda ledger, it: homeward.lend(FLOW, "B->A", ledger, it, f"lent-{it.by}", 5),
    "give-back": lambda ledger, it: homeward.give_back(ledger, it, f"lent-{it.by}", 6),
}


def run_of(ledger: Ledger, *, homeward: bool = False) -> str:
    """The newest run, as a process that began it would know it; `homeward` looks for one that goes home."""
    last = ledger.recoveries[-1] if ledger.recoveries else None
    if last is None:
        return "none"
    mine = bool(last.failover) if homeward else last.mode != FAILBACK
    return last.run if mine else "none"


class TestModel:
    @given(st.lists(st.tuples(st.sampled_from(sorted(MOVES)), st.sampled_from([JO, ANN])), max_size=25))
    def test_two_operators_in_any_order(self, moves: list[tuple[str, Actor]]):
        """At most one run is open; only its holder moves it; a promotion is undone by `follow` or the way home."""
        ledger = Ledger()
        for name, actor in moves:
            before = ledger
            try:
                move = MOVES[name](ledger, actor)
                ledger = after(ledger, move) if move is not None else ledger
            except TwinlogError:
                continue
            require_laws(ledger)
            require_step(before, ledger, name, actor)


def require_laws(ledger: Ledger) -> None:
    """What holds in every ledger that moves have made."""
    open_runs = [it for it in ledger.recoveries if it.state is RunState.OPEN]
    assert (ledger.phase in {FlowPhase.FAILING_OVER, FlowPhase.FAILING_BACK}) == (len(open_runs) == 1)
    assert (ledger.phase is FlowPhase.FAILING_BACK) == any(it.failover for it in open_runs)
    if ledger.phase is FlowPhase.PROMOTED:
        assert RunState.PROMOTED is ledger.present_recovery.state
    if open_runs:
        assert open_runs[0] == transitions.open_run(ledger)
        assert ledger.copies_for(open_runs[0].run)
        assert not ledger.copies_for("another")
    assert ledger.copies == (ledger.phase is FlowPhase.ACTIVE)


def require_step(before: Ledger, ledger: Ledger, name: str, actor: Actor) -> None:
    """What holds between a ledger and the next."""
    if name in {"note", "deny", "promote", "clear"}:
        assert actor.holder == before.recovery(run_of(before)).holder
    if name == "arrive":
        assert actor.holder == before.recovery(run_of(before, homeward=True)).holder
    if before.phase is not ledger.phase:
        assert (before.phase, ledger.phase) in WAYS[name]


ACTIVE, OVER, PROMOTED, BACK = (
    FlowPhase.ACTIVE,
    FlowPhase.FAILING_OVER,
    FlowPhase.PROMOTED,
    FlowPhase.FAILING_BACK,
)
WAYS = {
    "begin": {(ACTIVE, OVER)},
    "begin-dead": {(ACTIVE, OVER)},
    "promote": {(OVER, PROMOTED)},
    "abort": {(OVER, ACTIVE), (BACK, PROMOTED)},
    "follow": {(PROMOTED, ACTIVE)},
    "set-out": {(PROMOTED, BACK)},
    "arrive": {(BACK, ACTIVE)},
    "lend": {(ACTIVE, OVER)},
    "give-back": {(OVER, ACTIVE)},
}
"""All ways from one state to another, by the move that goes it."""


class TestBegin:
    def test_goes_on_with_the_run_that_is_under_way(self):
        """Another process takes the same run, and may change its mode."""
        move = transitions.begin(FLOW, begun(), Mode.SOURCE_DEAD, ANN, "run-2", 100_000)
        assert ("run-1", "source-dead", "process-2", "jo") == (
            move.run.run,
            move.run.mode,
            move.run.holder,
            move.run.by,
        )
        assert "; begun as planned by jo, goes on as source-dead" == move.run.changed_mode
        assert move.state is None

    def test_a_paused_flow_is_not_drained(self):
        """A person paused it for a reason; without the source there is nothing to drain."""
        paused = Ledger(flow_state=FlowState(FlowPhase.PAUSED, 1, "ann", "brokers are moved"))
        try:
            transitions.begin(FLOW, paused, Mode.PLANNED, JO, "run-1", 2)
        except TwinlogError as error:
            assert ("paused", True) == (error.code, "brokers are moved" in error.message)
        else:
            raise AssertionError("begun")
        assert transitions.begin(FLOW, paused, Mode.SOURCE_DEAD, JO, "run-1", 2).state

    def test_old_runs_are_forgotten(self):
        """A ledger keeps a bounded number of them."""
        runs = tuple(RecoveryRun(f"r{n:03}", "planned", RunState.ABORTED, "jo", "x", n, n) for n in range(60))
        move = transitions.begin(FLOW, Ledger(recoveries=runs), Mode.PLANNED, JO, "new", 99)
        assert transitions.MOST_RUNS == len(after(Ledger(recoveries=runs), move).recoveries)

    def test_the_journal_is_bounded(self):
        """The newest entries are kept."""
        ledger = begun()
        for number in range(transitions.MOST_ENTRIES + 5):
            entry = replace(ENTRY, at_ms=number)
            ledger = after(ledger, transitions.note(held(ledger, JO), entry))
        journal = ledger.recoveries[0].journal
        assert (transitions.MOST_ENTRIES, 5) == (len(journal), journal[0].at_ms)


BEFORE = (
    None,
    FlowState(FlowPhase.ACTIVE, 1, "ann", "looked at"),
    FlowState(FlowPhase.PAUSED, 1, "ann", "brokers are moved"),
    FlowState(FlowPhase.PAUSED, 1, HANDOVER, "handed over to MirrorMaker 2"),
)
MEANWHILE = {name: MOVES[name] for name in ("begin-dead", "note", "deny")}


HERE, THERE = Actor("jo", "failover-1", "here"), Actor("jo", "failover-2", "there")
DAG, AGAIN = Actor("jo", "dag/1-1", "pod-1", "dag/1"), Actor("jo", "dag/1-2", "pod-2", "dag/1")


class TestLive:
    def noted(self, first: Actor, **changes: object) -> Ledger:
        entry = replace(ENTRY, at_ms=100_000, by=first.by, host=first.host, **changes)
        ledger = begun(actor=first)
        return after(ledger, transitions.note(held(ledger, first), entry))

    @pytest.mark.parametrize(("first", "second"), [(JO, ANN), (HERE, THERE), (HERE, ANN), (DAG, HERE)])
    @pytest.mark.parametrize("now_ms", [40_001, 100_000, 159_999])
    def test_another_person_or_host_is_refused(self, first: Actor, second: Actor, now_ms: int):
        """In either mode, for a minute, and by a clock that is a little slow."""
        for mode in Mode:
            with pytest.raises(TerminalError) as caught:
                transitions.begin(FLOW, self.noted(first), mode, second, "run-2", now_ms)
            assert ("live-run", 1) == (caught.value.code, caught.value.exit_code)

    def test_the_line_says_who_where_when_and_in_which_mode(self):
        """And what to do."""
        with pytest.raises(TerminalError) as caught:
            transitions.begin(FLOW, self.noted(HERE), Mode.SOURCE_DEAD, ANN, "run-2", 112_500)
        expected = "jo on here is busy with run-1 of A->B, planned: step gate 12 s ago"
        assert expected == caught.value.message
        assert "a minute passes without an entry" in caught.value.hint

    @pytest.mark.parametrize(("first", "second"), [(JO, JO), (HERE, HERE), (JO, HERE), (DAG, AGAIN)])
    def test_the_same_actor_goes_on(self, first: Actor, second: Actor):
        """After Ctrl-C, in a run of an earlier release, which kept no host, and as a try of the same Dag run."""
        begun = transitions.begin(FLOW, self.noted(first), Mode.PLANNED, second, "run-2", 100_001)
        assert second.holder == begun.run.holder

    @pytest.mark.parametrize("now_ms", [40_000, 160_000, -(2**62)])
    def test_a_minute_or_a_time_in_the_future_ends_it(self, now_ms: int):
        """A clock that runs ahead does not keep a run for ever."""
        assert (
            ANN.holder
            == transitions.begin(FLOW, self.noted(JO), Mode.PLANNED, ANN, "run-2", now_ms).run.holder
        )

    @pytest.mark.parametrize("state", [StepState.FAILED, StepState.WAITING])
    def test_a_step_that_failed_or_waits_is_anybodys(self, state: StepState):
        """At once."""
        ledger = self.noted(JO, state=state)
        assert ANN.holder == transitions.begin(FLOW, ledger, Mode.PLANNED, ANN, "run-2", 100_001).run.holder

    def test_the_steps_after_the_promotion_and_the_way_home_too(self):
        """Whoever comes to them is refused as well."""
        ledger = promoted(self.noted(JO))
        with pytest.raises(TerminalError, match="busy"):
            transitions.retake(FLOW, ledger, ANN, 10)
        away = after(ledger, homeward.set_out(FLOW, ledger, JO, "home-1", 10))
        with pytest.raises(TerminalError, match="busy"):
            homeward.set_out(FLOW, away, ANN, "home-1", 11)


class TestAbort:
    @given(
        st.sampled_from(BEFORE),
        st.lists(st.tuples(st.sampled_from(sorted(MEANWHILE)), st.sampled_from([JO, ANN])), max_size=6),
    )
    def test_the_state_before_the_run_comes_back(
        self, state: FlowState | None, moves: list[tuple[str, Actor]]
    ):
        """Whoever went on with it meanwhile: paused by the same person for the same reason, handed over, or active."""
        ledger = Ledger(flow_state=state)
        ledger = after(ledger, transitions.begin(FLOW, ledger, Mode.SOURCE_DEAD, JO, "run-1", 2))
        for name, actor in moves:
            with suppress(FencedError, TerminalError):
                ledger = after(ledger, MEANWHILE[name](ledger, actor))
        assert state == after(ledger, transitions.abort(FLOW, ledger, ANN, "not today", 9)).flow_state

    @given(st.booleans())
    def test_a_flow_that_copied_home_copies_home_again(self, cycles: bool):
        """Its cycles too, if they did; and once the way home is given up, the state before that comes back."""
        ledger = after(
            Ledger(flow_state=BEFORE[1]),
            homeward.lend("B->A", FLOW, Ledger(flow_state=BEFORE[1]), JO, "h", 1),
        )
        if cycles:
            ledger = after(ledger, homeward.let_cycles(ledger, JO, "h"))
        for actor in (ANN, JO):
            begin = transitions.begin("B->A", ledger, Mode.SOURCE_DEAD, actor, "run-1", 100_000)
            dead = after(ledger, begin)
        back = after(dead, transitions.abort("B->A", dead, ANN, "B answers", 9))
        assert ledger.flow_state == back.flow_state
        assert BEFORE[1] == after(back, transitions.abort("B->A", back, ANN, "not today", 9)).flow_state


class TestPaused:
    """A flow that a person paused, or handed over to MM2, was failed over without its source."""

    @pytest.mark.parametrize(
        "pause", [it for it in BEFORE if it is not None and it.state is FlowPhase.PAUSED]
    )
    def test_it_stays_so_behind_the_promotion_and_the_way_home(self, pause: FlowState):
        """Whichever way it comes back: else MM2 and the flow would both copy.  One that observes MM2 needs no drain."""
        ledger = Ledger(flow_state=pause)
        dead = after(ledger, transitions.begin(FLOW, ledger, Mode.SOURCE_DEAD, JO, "run-1", 2))
        seen = after(ledger, transitions.begin(FLOW, ledger, Mode.PLANNED, JO, "run-1", 2, observed=True))
        assert dead.flow_state.before == seen.flow_state.before == pause
        over = promoted(dead)
        away = after(over, homeward.set_out(FLOW, over, JO, "home-1", 7))
        for back in (
            after(over, transitions.follow(FLOW, over, ANN, "clients are back", 9)),
            after(away, homeward.arrive(held(away, JO, homeward=True), away, ENTRY, nothing_lost=True)),
            after(away, homeward.end_without(FLOW, away, JO, "home-1", "B is back", 9)),
        ):
            assert pause == back.flow_state


class TestDenials:
    @pytest.mark.parametrize(("at_ms", "waits"), [(0, True), (2 * transitions.STALLED_MS, False)])
    def test_a_time_to_come_keeps_no_denials_for_ever(self, at_ms: int, waits: bool):
        """A process that says that it makes them far in the future is dead, too."""
        run = RecoveryRun("run-1", "planned", RunState.ABORTED, "jo", "p", 0, at_ms)
        run = replace(run, denied=(DeniedWrite("orders", "User:*", "*"),), denying="p")
        ledger = Ledger(recoveries=(run,))
        assert waits is (transitions.without_denials(ledger, "run-1", 0) is None)


class TestWayHome:
    def test_an_abort_leaves_the_failover_as_it_was(self):
        """With its time and its run: another way home may begin; also one that version 0.2 had set out on."""
        ledger = promoted(begun())
        away = after(ledger, homeward.set_out(FLOW, ledger, JO, "home-1", 7))
        old = replace(away, flow_state=replace(away.flow_state, before=None))
        assert "run-1" == after(old, transitions.abort(FLOW, old, ANN, "not today", 9)).flow_state.run
        back = after(away, transitions.abort(FLOW, away, ANN, "not today", 9))
        assert ledger.flow_state == back.flow_state
        assert (FlowPhase.PROMOTED, ENTRY.at_ms, "run-1") == (
            back.phase,
            back.flow_state.since_ms,
            back.flow_state.run,
        )
        assert "home-2" == homeward.set_out(FLOW, back, JO, "home-2", 10).run.run

    def test_what_an_earlier_one_has_left_is_taken(self):
        """The reverse flow of a way home that was given up while its ledger could not be reached."""
        ledger = after(Ledger(), homeward.lend("B->A", FLOW, Ledger(), JO, "home-1", 1))
        taken = after(ledger, homeward.lend("B->A", FLOW, ledger, ANN, "home-2", 2))
        assert [("home-1", RunState.ABORTED), ("home-2", RunState.OPEN)] == [
            (it.run, it.state) for it in taken.recoveries
        ]

    def test_a_failover_of_its_own_is_not_taken(self):
        """Another person fails the reverse flow over."""
        try:
            homeward.lend(FLOW, "B->A", begun(), ANN, "home-1", 2)
        except TwinlogError as error:
            assert "failing-over" == error.code
        else:
            raise AssertionError("taken")

    def test_waived_differences_are_no_zero(self):
        """What people answer for may be lost: how much is not known."""
        ledger = promoted(begun())
        away = after(ledger, homeward.set_out(FLOW, ledger, JO, "home-1", 7))
        for nothing_lost, known in ((True, (0, 0.0)), (False, (None, None))):
            run = homeward.arrive(held(away, JO, homeward=True), away, ENTRY, nothing_lost=nothing_lost).run
            assert known == (run.at_risk_records, run.rpo_seconds)


class TestLeft:
    def test_before_the_promotion_everything_is_done_again(self):
        """What was proved before a restart is proved again after it."""
        ledger = after(begun(), transitions.note(held(begun(), JO), ENTRY))
        every = tuple(step.name for step in STEPS[Mode.PLANNED])
        assert every == left(STEPS[Mode.PLANNED], ledger.recoveries[0])

    def test_after_it_only_what_is_not_done(self):
        """A step that failed is left, one that is done or skipped is not."""
        ledger = promoted(begun())
        for name, state in ((StepName.SWITCH_CLIENTS, StepState.FAILED), (StepName.CANARY, StepState.DONE)):
            entry = replace(ENTRY, step=name.value, state=state)
            ledger = after(ledger, transitions.note(held(ledger, JO), entry))
        assert (StepName.SCHEMAS, StepName.SWITCH_CLIENTS, StepName.REPORT) == left(
            STEPS[Mode.PLANNED], ledger.recoveries[0]
        )


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"groups_at_ms": 7}, "with --groups-at"),
        ({"consistent_cut": True}, "with --consistent-cut"),
        ({"untold": True, "home": "A->B"}, "before any way home had begun"),
    ],
)
def test_a_failover_begun_in_a_way_that_left_is_only_taken_back(field: dict, says: str) -> None:
    """An earlier release began it: to go on without what was asked for would be another failover."""
    before = begun()
    ledger = replace(before, recoveries=(replace(before.recoveries[0], **field),))
    with pytest.raises(TerminalError, match=f"{says}, which has left twinlog") as refused:
        transitions.begin(FLOW, ledger, Mode.SOURCE_DEAD, ANN, "run-2", 2)
    assert "left" == refused.value.code
    ended = after(ledger, transitions.abort(FLOW, ledger, ANN, "taken back", 3))
    assert FlowPhase.ACTIVE is ended.phase


NEW_RUNS = {
    **MOVES,
    "begin": lambda ledger, it: transitions.begin(FLOW, ledger, Mode.SOURCE_DEAD, it, new_run(ledger), 2),
    "lend": lambda ledger, it: homeward.lend(FLOW, "B->A", ledger, it, new_run(ledger), 5),
    "give-back": lambda ledger, it: homeward.give_back(ledger, it, lent(ledger), 6),
    "end-without": lambda ledger, it: homeward.end_without(
        FLOW, ledger, it, ledger.flow_state.run, "lost", 7
    ),
}
"""The moves with a new name for each run, as runs have; those of two operators have one for each."""

DEEPEST = 5


def lent(ledger: Ledger) -> str:
    return next((it.run for it in ledger.recoveries if transitions.is_lent(it)), "none")


def new_run(ledger: Ledger) -> str:
    return f"run-{len(ledger.recoveries)}"


def reached() -> Iterator[tuple[FlowPhase, str]]:
    """Make every move from every ledger that moves make, each shape of it once; yield those that change a state."""
    pause = FlowState(FlowPhase.PAUSED, 1, "ann", "brokers are moved")
    ledgers, known = [Ledger(), Ledger(flow_state=pause)], set[object]()
    for _ in range(DEEPEST):
        made = []
        for ledger, (name, move) in product(ledgers, NEW_RUNS.items()):
            if name == "begin-dead" or (name == "end-without" and ledger.flow_state is None):
                continue
            try:
                found = move(ledger, JO)
            except TwinlogError:
                continue
            if found is None:
                continue
            require_legal(ledger, found)
            then = after(ledger, found)
            require_laws(then)
            was = ledger.recovery(found.run.run)
            if (then.phase, found.run.state) != (ledger.phase, was and was.state):
                yield ledger.phase, found.name
            shape = then.phase, tuple((it.mode, it.state, it.failover, it.home) for it in then.recoveries)
            if shape not in known:
                known.add(shape)
                made.append(then)
        ledgers = made


def test_every_row_is_gone_and_every_move_is_in_a_row() -> None:
    """No row stands for a move that nothing makes."""
    assert set(TRANSITIONS) == set(reached())

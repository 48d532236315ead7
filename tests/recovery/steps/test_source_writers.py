"""Denials are noted, made and confirmed: a process that stalls in between leaves none behind that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_cluster import FakeCluster
from home_world import BothWays, denied, promoted_world
from hypothesis import given
from hypothesis import strategies as st
from recovery_world import Blows, Killed, World, new_world, replace_what_needs_brokers

from twinlog.cluster.admin.access_values import AclBinding
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FencedError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import DeniedWrite
from twinlog.recovery import abort, history, transitions
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps import source_writers
from twinlog.recovery.steps.world import Answer


@pytest.fixture(params=[True, False], ids=["same-names", "other-names"])
def world(
    request: pytest.FixtureRequest, flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> BothWays:
    """A flow that was failed over, with records of clients on B."""
    return promoted_world(flow, tmp_path, monkeypatch, keeps_names=request.param)


def stalled_at(world: BothWays, change: str, meanwhile: Callable[[], object], *, dies: bool = False) -> None:
    """Let another process act in front of a change, which is made behind it all the same."""

    class Stalled(Blows):
        def change(self, name: str, do: Callable[[], object]) -> object:
            if name != change:
                return do()
            world.blows = Blows()
            meanwhile()
            done = do()
            if dies:
                raise Killed(name)
            return done

    world.blows = Stalled()


class TestStalled:
    def test_one_that_makes_denials_after_another_has_turned_back_takes_them_away(self, world: BothWays):
        """Producers may go on writing to B, where they were left."""
        stalled_at(world, "B.create_acls", world.turn_back)
        with pytest.raises(FencedError, match="aborted"):
            world.home()
        assert FlowPhase.PROMOTED is world.ledger(world.there).phase
        assert not denied(world.b)

    def test_those_of_the_process_that_took_over_stay(self, world: BothWays, nobody_busy):
        """The first makes them once more, and removes none: the second's failover stands on them."""
        stalled_at(world, "B.create_acls", lambda: world.home(Answer.NO, by="ann"))
        with pytest.raises(FencedError, match="taken over"):
            world.home()
        assert denied(world.b)
        assert State.FOLLOWING is world.home().state
        assert not denied(world.b)

    def test_one_that_dies_behind_them_is_cleared_up_after(self, world: BothWays, monkeypatch):
        """The note outlives the turning back: the status names it, and the next command removes the denials."""
        stalled_at(world, "B.create_acls", world.turn_back, dies=True)
        with pytest.raises(Killed):
            world.home()
        assert denied(world.b)
        found = history.status(world.there, world.clusters(world.there))
        assert "may have left 1 denials of WRITE: `twinlog recovery abort --flow 'A->B'" in found.next
        assert () == world.turn_back().left
        assert not denied(world.b)
        monkeypatch.setattr(transitions, "STALLED_MS", 0)
        assert () == world.turn_back().left
        assert world.turn_back() is None

    def test_the_next_way_home_goes_on_with_what_is_there(self, world: BothWays):
        """It ends as any other, and no denial is left."""
        stalled_at(world, "B.create_acls", world.turn_back, dies=True)
        with pytest.raises(Killed):
            world.home()
        report = world.home()
        assert State.FOLLOWING is report.state, [(it.name, it.message) for it in report.steps]
        assert not denied(world.b)


def test_a_denial_that_somebody_removes_before_the_promotion(world: BothWays) -> None:
    """Producers might write again: nothing is promoted."""

    def meanwhile() -> Answer:
        world.b.acls = {it for it in world.b.acls if it.permission != "DENY"}
        return Answer.YES

    report = world.home(meanwhile)
    assert State.REFUSED is report.state
    assert f"B does not deny WRITE any more on {world.copied.topic}" in report.steps[-6].message
    assert State.FOLLOWING is world.home().state


WRITE_DENIED = AclBinding("TOPIC", "LITERAL", "orders", "User:*", "*", "WRITE", "DENY")


def fenced(report: FailoverReport) -> str:
    """Return what the step says."""
    return next(it.message for it in report.steps if it.name.value == "fence-producers")


class TestOpenToEverybody:
    """A source with allow.everyone.if.no.acl.found=true, no ACL, and a twinlog that is no super user there."""

    @pytest.fixture
    def open_world(self, flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
        """A flow that has copied `orders`."""
        made = new_world(flow, tmp_path)
        replace_what_needs_brokers(made, monkeypatch)
        made.clusters.source.acls = set()
        made.clusters.source.open_to_everybody = True
        made.cycle()
        made.audit()
        return made

    def test_only_writing_is_denied_and_an_abort_leaves_nothing(self, open_world: World):
        """Readers and twinlog see the topic as before."""
        source = open_world.clusters.source
        waits = open_world.fail_over(answer=Answer.NOBODY)
        assert State.WAITING is waits.state, [(it.name, it.message) for it in waits.steps]
        assert (True, False) == (source.may("READ", "orders"), source.may("WRITE", "orders"))
        assert {WRITE_DENIED, replace(WRITE_DENIED, operation="ALL", permission="ALLOW")} == source.acls
        abort.run(open_world.flow, open_world.watched, by="jo", reason="no")
        assert set() == source.acls

    def test_without_a_topic_nothing_is_said_to_be_denied(self, flow: FlowSettings):
        """Nothing was looked at: `denied already` would be good news about no topic."""
        assert "A has no topic to deny it on" == source_writers.plan_denials(flow, FakeCluster("A")).why_none

    def test_neither_acl_is_brought_to_the_target(self, open_world: World):
        """Or the copy on B would be everybody's."""
        open_world.fail_over()
        assert not [it for it in open_world.clusters.target.acls if it.principal == "User:*"]

    def test_a_super_user_denies_nothing_as_it_cannot_know_what_that_does(self, open_world: World):
        """The watch decides, and the step says what to do."""
        source = open_world.clusters.source
        source.open_to_everybody = False
        report = open_world.fail_over()
        assert State.PROMOTED is report.state
        assert set() == source.acls
        said = fenced(report)
        assert "no ACL was made: twinlog's user is a super user of A" in said
        assert "denying" not in report.next
        assert "kafka-acls --add --allow-principal 'User:*' --operation All --topic orders" in said

    def test_without_an_allow_there_is_no_denial(self, open_world: World):
        """A refused ALLOW ALL would leave the topic hidden."""
        source = open_world.clusters.source
        allow = replace(WRITE_DENIED, operation="ALL", permission="ALLOW")
        source.deny("create_acls", allow, ClusterRefused("not yours"))
        open_world.fail_over(answer=Answer.NOBODY)
        assert set() == source.acls

    def test_a_hidden_topic_never_stands_still(self, open_world: World):
        """A denial of others hides it: what is written there is unknown."""
        open_world.clusters.source.acls = {WRITE_DENIED}
        report = open_world.fail_over()
        assert State.WAITING is report.state
        assert "cannot be watched on A: orders (" in fenced(report)

    def test_a_partition_without_a_leader_never_stands_still(self, open_world: World):
        """It is not said that somebody writes there: nobody can look."""
        open_world.clusters.source.refuse("offsets", "orders", ClusterRefused("it has no leader"))
        report = open_world.fail_over()
        assert State.WAITING is report.state
        told = "cannot be watched on A: orders (it has no leader); let it be seen again, and run it again"
        assert fenced(report).startswith(told)


OPERATIONS = ("READ", "WRITE", "DESCRIBE", "DELETE", "ALTER")


@given(
    st.sets(
        st.builds(
            AclBinding,
            st.just("TOPIC"),
            st.sampled_from(["LITERAL", "PREFIXED"]),
            st.sampled_from(["orders", "ord", "other", "*"]),
            st.sampled_from(["User:*", "User:jo"]),
            st.just("*"),
            st.sampled_from([*OPERATIONS, "ALL"]),
            st.sampled_from(["ALLOW", "DENY"]),
        )
    )
)
def test_a_denial_takes_writing_alone(acls: set[AclBinding]) -> None:
    """Whatever ACLs there are, everybody may do what they might before, but for WRITE; removed, all is as it was."""
    cluster = FakeCluster("A")
    cluster.acls, cluster.open_to_everybody = set(acls), True
    before = {it: cluster.may(it, "orders") for it in OPERATIONS}
    unnamed = not any(it.is_about("orders") for it in acls)
    denied = [DeniedWrite("orders", "User:*", "*", keeps_rest=unnamed)]
    assert not source_writers.make_denials(cluster, denied)
    assert before | {"WRITE": False} == {it: cluster.may(it, "orders") for it in OPERATIONS}
    source_writers.remove_denials(cluster, denied)
    assert acls - {WRITE_DENIED} == cluster.acls

"""What a cycle notes and decides about topics as they live, from values alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.copying import GapPolicy, LifecycleSettings, RecreatedPolicy
from twinlog.formats.ledger.records import CycleReport, FlowPhase, Gap, GapCause
from twinlog.formats.ledger.topics import DeletedTopic, Incarnation, LeaderEpoch, Rebuild, RebuildPhase
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle.plan import LifecyclePlan, Lost, plan_lifecycle
from twinlog.lifecycle.records import ended
from twinlog.protocol.leader_epochs import EpochEnd, diverged_at
from twinlog.state.ledger import ledger_from
from twinlog.topics.discovery import (
    DiscoveredPartition,
    DiscoveredTopic,
    Discovery,
    Problem,
    ProblemCode,
    RemoteTopic,
)

AT = TopicPartition("t", 0)
LIFE = Incarnation("t", "id", 1, "A.t", "rid", "cluster-A")
CONTINUE = LifecycleSettings(on_gap=GapPolicy.RECORD_AND_CONTINUE)
WHOLE = PartitionOffsets(0, 10, 10)
NOW = 10_000_000


def seen(
    source: PartitionOffsets = WHOLE,
    *problems: ProblemCode,
    begins: int | None = None,
    paused: str = "",
    gone: bool = False,
) -> Discovery:
    """Topic `t` of one partition, as a discovery found it."""
    partition = DiscoveredPartition("t", "id", 0, source, PartitionOffsets(0, 0, 0), begins)
    blocked = bool(problems)
    topic = DiscoveredTopic("t", "id", "A.t", 1, (partition,), RemoteTopic("rid", 1), blocked, paused)
    return Discovery(
        "A->B",
        "cluster-A",
        "cluster-B",
        1,
        () if gone else (topic,),
        (),
        tuple(Problem(code, "t", "said") for code in problems),
    )


def planned(flow, discovery, *records, lives=None, last=None, ends=None) -> LifecyclePlan:
    """The plan of a flow with these settings, ledger records, last copied offset and epoch ends."""
    progress = {} if last is None else {AT: last}
    flow = replace(flow, lifecycle=lives or LifecycleSettings())
    return plan_lifecycle(flow, discovery, ledger_from([LIFE, *records]), progress, ends or {}, NOW)


def test_nothing_has_happened(flow) -> None:
    """A cycle like any other has nothing to do."""
    assert planned(flow, seen(), last=5).empty


@pytest.mark.parametrize(
    ("last", "begins", "expected"),
    [
        (5, None, (6, 7)),
        (6, None, (7, 7)),
        (7, None, None),
        (None, 3, (3, 7)),
        (None, None, None),
    ],
)
def test_a_log_start_behind_the_next_offset_is_a_gap(flow, last, begins, expected) -> None:
    """From progress, or from where the first copy would have begun; without either nothing was promised."""
    todo = planned(flow, seen(PartitionOffsets(8, 10, 10), begins=begins), last=last)
    assert ([expected] if expected else []) == [(it.first_offset, it.last_offset) for it in todo.lost]
    assert not todo.fenced


def test_by_policy_the_copy_goes_on_behind_a_gap(flow) -> None:
    """Behind the fence; a topic somebody paused stays where it is."""
    log = PartitionOffsets(8, 10, 10)
    assert [True] == [it.past for it in planned(flow, seen(log), lives=CONTINUE, last=5).lost]
    assert [False] == [it.past for it in planned(flow, seen(log, paused="x"), lives=CONTINUE, last=5).lost]


def test_a_gap_is_noted_once_and_again_when_it_grows(flow) -> None:
    """The record of a gap is kept under its first offset."""
    known = Gap("t", 0, 6, 7, GapCause.RETENTION, 1, 2, "id")
    assert () == planned(flow, seen(PartitionOffsets(8, 10, 10)), known, last=5).lost
    grown = planned(flow, seen(PartitionOffsets(9, 10, 10)), known, last=5).lost
    assert [(6, 8)] == [(it.first_offset, it.last_offset) for it in grown]


def test_a_truncated_log_that_grew_again_is_found_by_its_epochs(flow) -> None:
    """Epoch 3 of what was copied last ends at 4 now, though the log has 20 records."""
    epoch = LeaderEpoch("t", "id", 0, 3, 0)
    log, ends = PartitionOffsets(0, 20, 20), {AT: EpochEnd(3, 4)}
    found = Lost("t", "id", "A.t", 0, 4, 9, truncated=True, past=True, epoch=3)
    assert (found,) == planned(flow, seen(log), epoch, lives=CONTINUE, last=9, ends=ends).lost
    assert planned(flow, seen(log), epoch, last=9, ends={AT: EpochEnd(3, 10)}).empty


def test_where_two_logs_part_is_never_guessed(flow) -> None:
    """Progress beyond the end without a leader epoch, or one the log does not know: stopped under either policy."""
    short = planned(flow, seen(PartitionOffsets(0, 4, 4)), lives=CONTINUE, last=9)
    assert [(4, 9, False)] == [(it.first_offset, it.last_offset, it.past) for it in short.lost]
    epoch = LeaderEpoch("t", "id", 0, 3, 0)
    lost = planned(
        flow,
        seen(PartitionOffsets(0, 20, 20)),
        epoch,
        lives=CONTINUE,
        last=9,
        ends={AT: EpochEnd(-1, -1)},
    ).lost
    assert [(True, False)] == [(it.truncated, it.past) for it in lost]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (EpochEnd(3, 10), None),
        (EpochEnd(3, 12), None),
        (EpochEnd(3, 7), 7),
        (EpochEnd(2, 5), -1),
        (EpochEnd(2, 12), -1),
        (EpochEnd(-1, -1), -1),
    ],
)
def test_the_answer_of_a_broker_says_where_logs_part(answer: EpochEnd, expected: int | None) -> None:
    """KIP-320: what was read of epoch 3 up to 10 is there as long as its end is not before 10.

    Of a log that knows older epochs only nobody can say where it parts: epoch 3 may have begun before 5, under a leader
    that did not have all of epoch 2.
    """
    assert expected == diverged_at(3, answer, 10)


@pytest.mark.parametrize(
    ("policy", "adopted", "rebuilt"),
    [
        (RecreatedPolicy.FAIL, [], ()),
        (RecreatedPolicy.APPEND, ["t"], ()),
        (RecreatedPolicy.NEW_INCARNATION, [], ("t",)),
    ],
)
def test_a_recreated_topic_follows_the_policy(flow, policy, adopted, rebuilt) -> None:
    """Only when that is all that stands against it."""
    lives = LifecycleSettings(on_recreated=policy)
    todo = planned(flow, seen(PartitionOffsets(0, 1, 1), ProblemCode.RECREATED), lives=lives, last=9)
    assert (adopted, rebuilt, ()) == ([it.topic for it in todo.adopted], todo.rebuilt, todo.lost)
    both = seen(PartitionOffsets(0, 1, 1), ProblemCode.RECREATED, ProblemCode.COPY_RECREATED)
    assert planned(flow, both, lives=lives, last=9).empty


@pytest.mark.parametrize("policy", RecreatedPolicy)
def test_no_policy_acts_when_the_source_is_another_cluster(flow, policy) -> None:
    """An empty primary under the old address looks like a thousand recreated topics."""
    changed = seen(PartitionOffsets(0, 1, 1), ProblemCode.SOURCE_CHANGED)
    assert planned(flow, changed, lives=LifecycleSettings(on_recreated=policy), last=9).empty


def test_a_rebuild_that_was_begun_is_gone_on_with(flow) -> None:
    """Until it is done."""
    begun = Rebuild("t", "id", "A.t", "rid", RebuildPhase.DELETING, "jo", "why", 1)
    assert ("t",) == planned(flow, seen(PartitionOffsets(0, 1, 1), ProblemCode.REBUILDING), begun).rebuilt
    assert ("t",) == planned(flow, seen(), replace(begun, phase=RebuildPhase.COPYING), last=9).rebuilt
    assert () == planned(flow, seen(), replace(begun, phase=RebuildPhase.DONE), last=9).rebuilt


@pytest.mark.parametrize("problem", [ProblemCode.RECREATED, ProblemCode.SOURCE_CHANGED])
def test_a_rebuild_that_is_being_copied_is_no_policy(flow, problem) -> None:
    """Its groups may wait for long; gone on with, it would delete the copy of a topic that was recreated meanwhile."""
    copying = Rebuild("t", "id", "A.t", "rid", RebuildPhase.COPYING, "jo", "why", 1)
    assert planned(flow, seen(PartitionOffsets(0, 1, 1), problem), copying, last=9).empty


def test_a_deleted_topic_is_noted_once_and_its_copy_goes_when_it_is_due(flow) -> None:
    """Only after the time, only by policy, only on the cluster it was seen on."""
    gone, lives = seen(gone=True), LifecycleSettings(delete_after_ms=1_000)
    gone = replace(gone, problems=(Problem(ProblemCode.DELETED, "t", "said"),))
    noted = DeletedTopic("t", "id", "A.t", NOW)
    assert ((noted,), ()) == (planned(flow, gone).gone, planned(flow, gone, noted).gone)
    old = replace(noted, first_seen_ms=NOW - 1_000)
    assert (old,) == planned(flow, gone, old, lives=lives).due
    assert () == planned(flow, gone, replace(old, first_seen_ms=NOW - 999), lives=lives).due
    assert () == planned(flow, gone, replace(old, remote_topic="payroll"), lives=lives).due
    assert () == planned(flow, gone, old).due
    assert () == planned(flow, replace(gone, source_cluster_id="another"), old, lives=lives).due


def test_a_topic_that_is_back_is_not_deleted_any_more(flow) -> None:
    """The note of its deletion is forgotten."""
    noted = DeletedTopic("t", "id", "A.t", 1)
    assert (noted,) == planned(flow, seen(), noted, last=9).back


def test_a_flow_that_stands_by_does_nothing(flow) -> None:
    """Paused, failing over, promoted."""
    held = replace(seen(PartitionOffsets(8, 10, 10)), phase=FlowPhase.PROMOTED, stands_by="promoted by jo")
    assert planned(flow, held, lives=CONTINUE, last=5).empty


def test_what_a_life_left_uncopied_is_what_the_last_cycle_saw() -> None:
    """Nobody has counted what came after."""
    report = CycleReport("r", {"next_upstream": {"t": {"0": 7, "1": 3}}, "lag": {"t": {"0": 5}}}, 1)
    lost = [*ended(ledger_from([LIFE, report]), "t", NOW)]
    assert [(0, 7, 11)] == [(it.partition, it.first_offset, it.last_offset) for it in lost]

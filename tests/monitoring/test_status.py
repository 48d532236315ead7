"""What `status` tells."""

import time
from dataclasses import replace

import pytest
from fake_cluster import GoneCluster

from twinlog import clock
from twinlog.errors import ClusterRefused, ClusterUnreachable
from twinlog.formats.lane_counts import UNKNOWN, LaneCounts
from twinlog.formats.ledger.gate import GateOutcome
from twinlog.formats.ledger.records import CycleReport, FlowPhase, FlowState, Gap, GapCause, LaneFence
from twinlog.formats.ledger.recovery import RecoveryRun, RunState
from twinlog.jsonable import to_json
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import publish, status
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import write_ledger


def test_status_has_the_documented_shape(flow, clusters, orders, copied, target):
    """More may be added, these stay."""
    sync_topics.run(flow, clusters)
    copied(orders, 0, 3)
    write_ledger(flow, target, [Gap("orders", 0, 7, 9, GapCause.DELETE_RECORDS, 1, 3)])
    told = to_json(status.run(flow, clusters))
    assert ("A->B", "active", 2) == (told["flow"], told["state"], told["lag_records"])
    gap = {"topic": "orders", "partition": 0, "first_offset": 7, "last_offset": 9, "cause": "delete-records"}
    assert [gap] == [{name: it[name] for name in gap} for it in told["gaps"]]
    assert [("orders", clusters.source.topics["orders"].topic_id)] == [
        (it["topic"], it["topic_id"]) for it in told["incarnations"]
    ]
    assert [("orders", "A.orders", 2)] == [
        (it["topic"], it["remote_topic"], it["lag_records"]) for it in told["topics"]
    ]


def test_rpo_is_the_age_of_the_oldest_record_not_copied(flow, clusters, orders, copied, source):
    """By the source's clock; zero when everything is copied."""
    copied(orders, 0, 5)
    assert 0 == status.run(flow, clusters).rpo_seconds
    source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000) - 3_000)
    assert 3 <= status.run(flow, clusters).rpo_seconds < 10


def test_the_state_is_the_ledgers(flow, clusters, orders, target):
    """A paused flow is paused for everyone."""
    write_ledger(flow, target, [FlowState(FlowPhase.PAUSED, 1, "someone", "maintenance")])
    assert FlowPhase.PAUSED == status.run(flow, clusters).state


def test_with_the_source_gone_the_last_report_speaks(flow, clusters, orders, copied, target, monkeypatch):
    """What could be missing grows with every second since."""
    copied(orders, 0, 5)
    reported_ms = publish.run(flow, clusters, "run", None, int(time.time() * 1000)).at_ms
    monkeypatch.setattr(clock, "now_ms", lambda: reported_ms + 50)
    told = status.run(flow, type(clusters)(GoneCluster("A"), target))
    assert (False, 0, 0.05) == (told.source_reachable, told.lag_records, told.rpo_seconds)


def test_a_topic_whose_copy_is_refused_is_stopped(flow, clusters, source, target):
    """Its lag would be that of a topic that is copied; one that no cycle has seen yet is not stopped."""
    source.add_topic("payments")
    target.refuse("create_topics", "A.payments", ClusterRefused("by a policy"))
    flow = replace(flow, topics=NameFilter(("payments",)))
    assert () == status.run(flow, clusters).stopped
    sync_topics.run(flow, clusters)
    told = status.run(flow, clusters)
    assert [("payments", "copy-not-made", True)] == [(it.topic, it.code, it.person) for it in told.stopped]
    assert told.needs_person


def test_with_the_source_gone_a_lost_copy_is_named(flow, clusters, orders, copied, target):
    """The target alone shows it; a copy that the flow left out before may be gone."""
    sync_topics.run(flow, clusters)
    copied(orders, 0, 5)
    publish.run(flow, clusters, "run", None, int(time.time() * 1000))
    del target.topics["A.orders"]
    alone = type(clusters)(GoneCluster("A"), target)
    told = status.run(flow, alone)
    assert [("orders", "copy-deleted", True)] == [(it.topic, it.code, it.person) for it in told.stopped]
    assert told.needs_person
    without = replace(flow, topics=NameFilter(("orders",), ("orders",)))
    assert () == status.run(without, alone).stopped


def test_with_the_source_gone_and_no_report_nothing_is_claimed(flow, clusters, target):
    """Unknown is not zero."""
    told = status.run(flow, type(clusters)(GoneCluster("A"), target))
    assert (None, None, "") == (told.rpo_seconds, told.lag_records, told.as_of)


def test_without_the_target_there_is_no_status(flow, clusters, source):
    """All that is known is there."""
    with pytest.raises(ClusterUnreachable, match="cluster B"):
        status.run(flow, type(clusters)(source, GoneCluster("B")))


def test_lanes_tell_what_they_have_committed_and_when(flow, clusters, orders, target, lane_tells) -> None:
    """Lanes of an earlier fence tell nothing of now; a clock ahead of ours has no age, and what is unknown is no 0."""
    now = clock.now_ms()
    write_ledger(flow, target, [LaneFence("run", 2, 7)])
    lane = LaneCounts(7, 0, now - 9_000, 4, 1, 500, 90, 20, 3_000, 15, 2_000)
    lane_tells(orders, lane)
    lane_tells(TopicPartition("orders", 1), lane._replace(lane=1, at_ms=now + 900_000, behind=UNKNOWN))
    lane_tells(TopicPartition("orders", 2), lane._replace(lane=2, fence_ms=6))
    first, second = status.run(flow, clusters).lanes
    assert (0, 20, 3_000, 4, 1, 0.5, 90) == (
        first.lane,
        first.records,
        first.bytes,
        first.commits,
        first.retries,
        first.throttled_seconds,
        first.behind_records,
    )
    assert 9 <= (first.age_seconds or 0) < 60
    assert (1, None, None) == (second.lane, second.age_seconds, second.behind_records)


def test_records_behind_an_open_transaction_are_told_apart_from_lag(flow, clusters, orders, copied, source):
    """They are as little on the target, and count for the RPO; also when the source is gone later."""
    copied(orders, 0, 3)
    source.topics["orders"].logs[0].undecided = 2
    seen = status.run(flow, clusters)
    (topic,) = seen.topics
    assert (0, 2, 0, 2) == (
        seen.lag_records,
        seen.undecided_records,
        topic.lag_records,
        topic.undecided_records,
    )
    assert ([("orders", 0, 2)], True) == (
        [(it.topic, it.partition, it.records) for it in seen.undecided],
        topic.over_budget,
    )
    publish.run(flow, clusters, "run", None, int(time.time() * 1000))
    gone = status.run(flow, type(clusters)(GoneCluster("A"), clusters.target))
    assert (0, 2, True) == (gone.lag_records, gone.undecided_records, gone.rpo_seconds > 3600)


def test_nothing_lags_is_said_only_if_everything_was_seen(flow, clusters, orders, copied, source):
    """A topic without an answer may be far behind; the last report says no more of it once the source is gone."""
    copied(orders, 0, 5)
    source.refuse("offsets", "orders", ClusterRefused("no"))
    seen = status.run(flow, clusters)
    assert (None, None, 1) == (seen.lag_records, seen.rpo_seconds, seen.unseen_partitions)
    assert [("orders", None, ())] == [(it.topic, it.lag_records, it.partitions) for it in seen.topics]
    publish.run(flow, clusters, "run", None, int(time.time() * 1000))
    gone = status.run(flow, type(clusters)(GoneCluster("A"), clusters.target))
    assert (None, 1) == (gone.rpo_seconds, gone.unseen_partitions)


def test_the_lag_of_a_flow_is_unknown_if_one_topic_is_not_copied(flow, clusters, orders, copied, source):
    """Kafka creates no A.orders.x beside A.orders_x: what waits there is in no sum, also of the last report."""
    source.add_topic("orders.x")
    source.add_topic("orders_x")
    source.append(TopicPartition("orders.x", 0), key=b"k", value=b"v", timestamp=1)
    copied(orders, 0, 3)
    clusters.target.add_topic("A.orders_x")
    flow = replace(flow, topics=NameFilter(("orders.*",)))
    assert None is status.run(flow, clusters).lag_records
    publish.run(flow, clusters, "run", None, int(time.time() * 1000))
    assert None is status.run(flow, type(clusters)(GoneCluster("A"), clusters.target)).lag_records


def test_a_flow_whose_cycles_have_ended_stands_still(flow, clusters, orders, copied, target):
    """Records are over their RPO, and no cycle has ended for as long; who follows reports each minute."""
    copied(orders, 0, 3)
    write_ledger(flow, target, [CycleReport("run", {}, clock.now_ms() - 3_600_000)])
    still = status.run(flow, clusters)
    assert 3600 <= still.cycle_age_seconds < 3700
    assert still.stands_still
    held = FlowState(FlowPhase.PAUSED, 1, "jo", "")
    write_ledger(flow, target, [held])
    assert not status.run(flow, clusters).stands_still
    write_ledger(
        flow, target, [FlowState(FlowPhase.ACTIVE, 2, "jo", ""), CycleReport("run", {}, clock.now_ms())]
    )
    assert not status.run(flow, clusters).stands_still


def test_readiness_is_the_gates_newest_answer_in_each_mode(flow, clusters, orders, target):
    """A mode in which nobody asked is not ready, and not unready; an answer has its age and its reason."""
    asked = GateOutcome("planned", False, clock.now_ms() - 60_000, ("lag-records", "canary", "x"), (), "ab")
    write_ledger(flow, target, [asked])
    for told in (status.run(flow, clusters), status.run(flow, type(clusters)(GoneCluster("A"), target))):
        planned, dead = told.readiness
        assert ("NOT READY (planned): lag-records, canary and 1 more", "NEVER ASKED (source-dead)") == (
            planned.told,
            dead.told,
        )
        assert (None, True) == (dead.ready, 60 <= planned.age_seconds < 90)


def test_an_answer_from_before_clients_moved_is_none(flow, clusters, orders, target):
    """Once they have come home, READY of before the failover says nothing of the next one."""
    now = clock.now_ms()
    home = RecoveryRun(
        "home-1", "failback", RunState.PROMOTED, "jo", "", now - 900, now, promoted_ms=now - 500
    )
    asked = [
        GateOutcome(mode, True, now - ago, (), (), mode)
        for mode, ago in (("planned", 600), ("source-dead", 400))
    ]
    write_ledger(flow, target, [home, *asked])
    planned, dead = status.run(flow, clusters).readiness
    assert ("NOT ASKED since home-1 (planned)", None, True) == (planned.told, planned.ready, dead.ready)


def test_a_report_of_an_older_twinlog_says_nothing_of_what_is_undecided(flow, clusters, with_internal):
    """It did not look: that is not 0, and how much can be missing nobody knows."""
    target = with_internal
    write_ledger(flow, target, [CycleReport("run", {"rpo_seconds": 0.0, "lag_records": 0}, clock.now_ms())])
    gone = status.run(flow, type(clusters)(GoneCluster("A"), target))
    assert (0, None, None) == (gone.lag_records, gone.undecided_records, gone.rpo_seconds)

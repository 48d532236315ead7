"""The readiness gate over clusters in memory: ready only when everything that was asked for is known and holds."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from twinlog import clock
from twinlog.audit.coverage import UnprovedCount
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.admin.groups import GroupState, GroupType
from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.config.flow.settings import CopiedBy, GroupSyncPolicy, GroupSyncSettings
from twinlog.config.flow.tiers import GateSettings, Tier
from twinlog.copying.ownership import state_topics
from twinlog.errors import ClusterRefused, ClusterUnreachable, ConfigError, FormatError, TransientError
from twinlog.facts.topic import SINCE_3_9
from twinlog.formats.ledger.accepted import Accepted, Waiver
from twinlog.formats.ledger.audit import PartitionAudit, Unproved, UnprovedSpan
from twinlog.formats.ledger.gate import GateOutcome, KnownSource
from twinlog.formats.ledger.records import CycleReport, FlowPhase, FlowState, Gap, GapCause, parse_ledger
from twinlog.formats.ledger.topics import GapAcknowledged, GroupPosition, Rebuild, RebuildPhase
from twinlog.formats.map.offset_map import MapKey, encode_segment
from twinlog.gate import ask as gate
from twinlog.gate.ask import GateRequest
from twinlog.gate.groups import read_target
from twinlog.groups import checkpoints
from twinlog.jsonable import to_json
from twinlog.judge.check import Mode, Severity, Use, judge
from twinlog.judge.great_expectations import validate
from twinlog.judge.table import asked
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import map_record, progress_record
from twinlog.lifecycle import rebuild, sync_topics
from twinlog.monitoring import publish
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.topics.snapshot import FlowSnapshot

NOW = int(time.time() * 1000)
HOUR = 3_600_000
PLANNED, DEAD = GateRequest(Mode.PLANNED), GateRequest(Mode.SOURCE_DEAD)
MOVING = GateRequest(Mode.PLANNED, still_writing=True)


@pytest.fixture
def audited(flow, source, target):
    """`audited(at_ms, records)` notes that the first records of `orders` were audited, of which `proved` are equal.

    By default all of them; the others are not proved for a `reason`.
    """

    def note(
        at_ms: int = NOW,
        records: int = 5,
        proved: int | None = None,
        reason: Unproved = Unproved.SOURCE_RETENTION,
    ) -> None:
        proved = records if proved is None else proved
        lives = source.topics["orders"].topic_id, target.topics["A.orders"].topic_id
        before = ("orders", lives[0], 0, "A.orders", lives[1], 0, records, records, records)
        span = UnprovedSpan(proved, records, records - proved, reason)
        write_ledger(flow, target, [PartitionAudit(*before, proved, 0, (span,), 0, (), at_ms)])

    return note


@pytest.fixture
def ran(flow, clusters, orders, copied, audited):
    """Everything is copied and a cycle is reported; an audit has proved all of it."""
    copied(orders, 0, 5)
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-1", None, NOW)
    audited()


@pytest.fixture
def later(flow, target, monkeypatch):
    """`later(ms)` lets it be so long after the last cycle, to the millisecond, and returns the time."""

    def move(ms: int) -> int:
        at_ms = read_ledger(flow, target).last_report.at_ms + ms
        monkeypatch.setattr(clock, "now_ms", lambda: at_ms)
        return at_ms

    return move


@pytest.fixture
def ask(flow, clusters):
    """`ask(request)` asks the gate, in plain Python; the sleep of the fence does `meanwhile`."""

    def answer(request=PLANNED, settings=flow, meanwhile=lambda _: None):
        return gate.run(settings, clusters, request, sleep=meanwhile).result

    return answer


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("request_", [PLANNED, DEAD], ids=lambda it: it.mode.value)
def test_great_expectations_says_the_same(flow, clusters, request_):
    """Every check of the gate, through both evaluators."""
    by_gx = gate.run(flow, clusters, request_, by=validate, sleep=lambda _: None).result
    plain = gate.run(flow, clusters, request_, sleep=lambda _: None).result
    assert [(it.name, it.passed) for it in plain.checks] == [(it.name, it.passed) for it in by_gx.checks]


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(
    ("waiting", "told"), [(0, ""), (3, "3 records"), (None, "nobody knows how many records")]
)
def test_a_topic_that_left_the_file_with_records_not_copied_is_no_ready_standby(
    ask, flow, clusters, source, orders, waiting, told
):
    """Its copy stays, proved as far as it goes, and lacks what nobody copies any more: gate and dry run say so."""
    for _ in range(waiting or 0):
        source.append(orders, key=b"k", value=b"v", timestamp=NOW)
    if waiting is None:
        source.refuse("offsets", "orders", ClusterRefused("no"))
    without = replace(flow, topics=NameFilter(("orders",), ("orders",)))
    check = check_of(ask(settings=without), "nothing-blocked")
    assert (not told, ("orders",) if told else ()) == (check.passed, check.subjects)
    assert told in check.message
    problems = [it.code for it in FlowSnapshot(without, clusters).discovery.problems]
    assert bool(told) is ("left-behind" in problems)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ("left out", "3 records of it on A are not in A.orders"),
        ("selected", "orders is left out: 3 records of it are not in A.orders"),
        ("selected and copied", ""),
        ("by an older release", "the last cycle could not look at it"),
    ],
)
def test_without_the_source_the_last_cycle_tells_of_a_topic_that_left_the_file(
    ask, flow, clusters, source, target, orders, seen, told
):
    """Whether it had it in its file still, or found it left behind; what it did not look for, nobody knows."""
    for _ in range(0 if seen == "selected and copied" else 3):
        source.append(orders, key=b"k", value=b"v", timestamp=NOW)
    without = replace(flow, topics=NameFilter(("orders",), ("orders",)))
    publish.run(flow if seen.startswith("selected") else without, clusters, "last", None, NOW)
    if seen == "by an older release":
        known = read_ledger(flow, target).known_source
        write_ledger(flow, target, [replace(known, left_behind=None)])
    lose(source)
    check = check_of(ask(DEAD, settings=without), "nothing-blocked")
    assert (not told, ("orders",) if told else ()) == (check.passed, check.subjects)
    assert told in check.message


def lose(cluster):
    """Let every verb of a fake cluster fail, as that of a lost one does."""

    def away(*_: object, **__: object) -> None:
        raise ClusterUnreachable(f"cluster {cluster.alias} is away", cluster=cluster.alias)

    for verb in (
        "cluster_id",
        "topic_names",
        "describe_topics",
        "topic_configs",
        "offsets",
        "read_records",
        "groups",
        "log_dirs",
        "broker_count",
    ):
        setattr(cluster, verb, away)


def failed(result) -> list[str]:
    return [it.name for it in result.checks if not it.passed]


@pytest.mark.usefixtures("ran")
def test_a_complete_copy_is_ready(ask, audited):
    """One replica, and records the source had deleted before an audit, are warned about, and do not block."""
    audited(proved=4)
    result = ask()
    assert (True, ()) == (result.ready, result.blocking)
    assert {"survives-a-broker", "audit-coverage"} <= set(failed(result))
    (orders,) = (it for it in result.coverage if it.topic == "orders")
    assert (4, 4, 100, (UnprovedCount("source-retention", 1),)) == (
        orders.proved,
        orders.comparable,
        orders.percent,
        orders.unproved,
    )


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("request_", [PLANNED, MOVING, DEAD], ids=str)
@pytest.mark.parametrize("reason", Unproved)
def test_an_audit_that_proved_nothing_is_none(ask, audited, source, request_, reason):
    """Whatever kept it from comparing, the default gate is not ready with 0 % proved."""
    if request_ is DEAD:
        lose(source)
    audited(proved=0, reason=reason)
    blocking = {"audit-age", "audit-promised"}
    # Where the copy has lost its records there is nothing to prove: that the map speaks of them is no failure.
    expected = set() if reason is Unproved.TARGET_RETENTION else blocking
    assert expected == blocking & set(ask(request_).blocking)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(
    ("request_", "proved", "ready"),
    [(PLANNED, 4, False), (MOVING, 3, True), (MOVING, 2, False), (DEAD, 3, True), (DEAD, 2, False)],
    ids=str,
)
def test_how_much_has_to_be_proved(ask, audited, source, request_, proved, ready):
    """All that both sides hold once producers have stopped; most of it while no audit can keep up."""
    if request_ is DEAD:
        lose(source)
    audited(records=proved)
    assert ready is ("audit-promised" not in ask(request_).blocking)


@pytest.mark.usefixtures("ran")
def test_a_tier_says_how_much(ask, flow, audited):
    """In either direction, whoever writes."""
    audited(records=4)
    for percent, ready in ((80, True), (81, False)):
        asked = replace(flow, tiers=(replace(flow.tiers[0], audit_percent=percent),))
        for request_ in (PLANNED, MOVING):
            assert ready is ("audit-promised" not in ask(request_, asked).blocking)


def test_an_empty_copy_can_be_gated(ask, flow, clusters, source, with_internal):
    """Of a topic without records there is nothing to audit, and nothing is called proved."""
    source.add_topic("empty")
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-1", None, NOW)
    result = ask()
    assert set() == {"audit-age", "audit-promised"} & set(result.blocking)
    assert [(True, "n/a")] * 2 == [
        (it.passed, it.observed) for it in result.checks if it.name in {"audit-promised", "audit-equal"}
    ]


@pytest.mark.usefixtures("ran")
def test_the_shape_stays(ask):
    """What others rely on in the JSON."""
    shown = to_json(ask())
    assert {"flow", "mode", "ready", "checks"} <= set(shown)
    names = {"name", "severity", "passed", "observed", "expected", "message", "age_seconds"}
    assert [] == [check for check in shown["checks"] if not names <= set(check)]
    assert {it.name for suite in asked(Use.PLANNED) for it in suite.checks} <= {
        check["name"] for check in shown["checks"]
    }
    assert ("A->B", "planned") == (shown["flow"], shown["mode"])
    json.dumps(shown, allow_nan=False)


@pytest.mark.usefixtures("ran")
def test_what_a_configuration_wants_to_block_blocks(ask, flow, audited):
    """The same two checks, made critical."""
    audited(proved=4)
    strict = replace(flow, gate=GateSettings(blocking=("survives-a-broker", "audit-coverage")))
    assert {"survives-a-broker", "audit-coverage"} == set(ask(settings=strict).blocking)
    with pytest.raises(ConfigError, match=r"twinlog\.gate\.blocking: 'no-such' is no check"):
        ask(settings=replace(flow, gate=GateSettings(blocking=("no-such",))))


def test_a_flow_that_never_ran_is_not_ready(ask, orders):
    """In either mode; of a cycle that never was, nothing else is judged."""
    for request in (PLANNED, DEAD):
        result = ask(request)
        assert not result.ready
        assert "flow-has-run" in result.blocking
        assert {"n/a"} == {
            it.observed for it in result.checks if it.name in {"last-cycle-succeeded", "state-age"}
        }


def test_a_target_without_anything_is_not_ready(ask, target):
    """Not even the flow's own topics are there."""
    target.topics.clear()
    for request in (PLANNED, DEAD):
        assert {"flow-has-run", "has-topics"} <= set(ask(request).blocking)


@pytest.mark.usefixtures("ran")
def test_lag_forbids_it_unless_a_tier_allows_it(ask, flow, source, orders):
    """Records of a partition, per tier; while producers still write the RPO counts instead."""
    source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000))
    assert ("lag-records",) == ask().blocking
    assert () == ask(GateRequest(Mode.PLANNED, still_writing=True)).blocking
    easy = replace(flow, tiers=(Tier(), Tier("easy", NameFilter(("orders",)), 300, lag_records=1)))
    assert () == ask(settings=easy).blocking


@pytest.mark.usefixtures("ran")
def test_an_rpo_that_is_broken_forbids_it(ask, flow, source, orders):
    """By the age of the oldest record that is not copied, against the topic's tier."""
    source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000) - 60_000)
    asked = GateRequest(Mode.PLANNED, still_writing=True)
    assert () == ask(asked).blocking
    gold = replace(flow, tiers=(Tier(), Tier("gold", NameFilter(("o.*",)), rpo_seconds=30)))
    result = ask(asked, gold)
    assert ("rpo-within-budget",) == result.blocking
    (risk,) = result.topics
    assert ("orders", "gold", 1, 30) == (risk.topic, risk.tier, risk.records, risk.rpo_seconds)
    assert 60 <= risk.seconds < 120


@pytest.mark.usefixtures("ran")
def test_a_source_that_is_written_to_is_not_fenced(ask, source, orders):
    """Ends that move within the window, and transactions that are open; the topic is named."""

    def write(_: float) -> None:
        source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000))

    result = ask(meanwhile=write)
    assert {"source-fenced", "lag-records"} == set(result.blocking)
    assert [True] == [it.moving for it in result.topics]


@pytest.mark.usefixtures("ran")
def test_an_open_transaction_is_no_fence(ask, source, orders):
    """It may still be committed.  However young it is, the check names who holds it, unless the source tells nobody."""
    source.append(orders, key=b"k", value=b"v", timestamp=NOW)
    log = source.topics["orders"].logs[0]
    log.undecided, log.held_by = 1, OpenTransaction(5, 17, 0, "pay-1", NOW, 60_000)
    result = ask()
    assert "source-fenced" in result.blocking
    assert (
        check_of(result, "source-fenced")
        .message.partition(". Asked")[0]
        .endswith("; orders-0: producer 17 epoch 0, transactional id pay-1")
    )
    source.refuse("open_transactions", "orders", ClusterRefused("no"))
    assert check_of(ask(), "source-fenced").message.endswith("an open transaction has to end, too")


@pytest.mark.usefixtures("ran")
def test_the_window_is_the_configured_one(ask, flow):
    """At least ten seconds by default."""
    slept = []
    ask(meanwhile=slept.append)
    ask(settings=replace(flow, gate=GateSettings(fence_seconds=30)), meanwhile=slept.append)
    assert [10, 30] == slept


@pytest.mark.usefixtures("ran")
def test_heartbeats_may_go_on(ask, source, clusters, flow, copied):
    """They are written whether producers run or not."""
    beats = TopicPartition("heartbeats", 0)
    source.add_topic("heartbeats")
    source.append(beats, key=b"k", value=b"v", timestamp=int(time.time() * 1000))
    sync_topics.run(flow, clusters)
    assert () == ask(meanwhile=lambda _: source.append(beats, key=b"k", value=b"v")).blocking


@pytest.mark.usefixtures("ran")
def test_heartbeats_alone_are_no_topics_of_a_flow(ask, flow, source, clusters):
    """Patterns that match nothing leave a flow in which nothing lags, differs or is missing."""
    source.add_topic("heartbeats")
    misspelt = replace(flow, topics=NameFilter(("odrers.*",)))
    sync_topics.run(misspelt, clusters)
    assert "has-topics" in ask(settings=misspelt).blocking
    lose(source)
    assert "has-topics" in ask(DEAD, settings=misspelt).blocking
    assert "has-topics" not in ask(DEAD).blocking


@pytest.mark.usefixtures("ran")
def test_a_missing_map_forbids_it(ask, target, flow):
    """Groups would start at a guess."""
    target.topics[flow.offset_map_topic].logs = [
        type(log)() for log in target.topics[flow.offset_map_topic].logs
    ]
    for request in (PLANNED, DEAD):
        assert "map-known" in ask(request).blocking


@pytest.mark.usefixtures("ran")
def test_a_planned_failover_without_its_source_is_not_checked(ask, source):
    """Every check fails and says why; none is taken from elsewhere."""
    lose(source)
    result = ask()
    assert not result.ready
    assert {"not checked"} == {it.observed for it in result.checks}
    assert all("mode source-dead" in it.message for it in result.checks)


@pytest.mark.usefixtures("ran")
def test_a_dead_source_is_judged_from_the_target(ask, source, later):
    """With the age of what was known of it."""
    lose(source)
    audited_ms = later(5_000) - NOW
    result = ask(DEAD)
    assert (True, ()) == (result.ready, result.blocking)
    ages = {it.name: it.age_seconds for it in result.checks}
    assert (0, 5, 5) == (ages["copy-not-cut-off"], ages["known-rpo"], ages["state-age"])
    assert [audited_ms / 1000] * 2 == [ages["audit-equal"], ages["audit-age"]]


@pytest.mark.parametrize("request_", [PLANNED, DEAD], ids=lambda it: it.mode.value)
def test_a_copy_that_nobody_audited_is_not_ready(
    ask, flow, source, target, clusters, orders, copied, request_
):
    """Unless somebody answers for it; a topic without a record has nothing to audit."""
    source.add_topic("empty")
    copied(orders, 0, 5)
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-1", None, NOW)
    if request_ is DEAD:
        lose(source)
    result = ask(request_)
    assert (False, ("audit-age", "audit-promised")) == (result.ready, result.blocking)
    check = next(it for it in result.checks if it.name == "audit-age")
    assert (("orders",), None) == (check.subjects, check.age_seconds)
    assert "twinlog audit" in check.message
    waived = ("audit-age", "audit-promised")
    write_ledger(flow, target, [Waiver(it, "orders", "a trial", "jo", NOW + HOUR, NOW) for it in waived])
    assert (True, waived) == (ask(request_).ready, ask(request_).waived)


@pytest.mark.usefixtures("ran")
def test_an_audit_that_is_too_old_forbids_it(ask, flow, audited):
    """By the configured age; a day by default."""
    audited(at_ms=NOW - 25 * HOUR)
    assert ("audit-age",) == ask().blocking
    patient = replace(flow, gate=GateSettings(audit_age_seconds=26 * 3600))
    assert () == ask(settings=patient).blocking


@pytest.mark.usefixtures("ran")
def test_a_source_that_lives_is_not_dead(ask):
    """The gate says so, and does not take its word for the rest."""
    result = ask(DEAD)
    assert ("source-silent",) == result.blocking
    message = next(it.message for it in result.checks if it.name == "source-silent")
    assert "ask in mode planned" in message


@pytest.mark.usefixtures("ran")
def test_a_source_that_refuses_lives(ask, source):
    """A refusal is an answer."""

    def refuse() -> None:
        raise ClusterRefused("who are you", cluster="A")

    source.cluster_id = refuse
    assert "source-silent" in ask(DEAD).blocking


def test_what_was_lost_with_the_source_is_said(ask, source, flow, clusters, orders, copied, audited):
    """Records and age as the last cycle saw them, against the tier's RPO."""
    copied(orders, 0, 3)
    audited(records=3)
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-1", None, NOW)
    lose(source)
    result = ask(DEAD)
    assert {"known-rpo"} == set(result.blocking)
    assert "known-lag" in failed(result)
    assert [("orders", 2, None)] == [(it.topic, it.known, it.records) for it in result.topics]


@pytest.mark.usefixtures("ran")
def test_drift_is_remembered(ask, source, target, flow, clusters):
    """Seen by a cycle while the source lived, told when it is lost."""
    target.topics["A.orders"].configs["retention.ms"] = "1000"
    assert ("retention-time",) == ask().blocking
    publish.run(flow, clusters, "run-2", None, NOW)
    lose(source)
    result = ask(DEAD)
    assert ("known-drift",) == result.blocking
    assert ("retention.ms: 604800000 on the source, 1000 on the target",) == result.topics[0].drift


@pytest.mark.usefixtures("ran", "fenced")
def test_no_limit_is_a_word(ask, source, target):
    """Retention that never ends is no number of milliseconds."""
    source.topics["orders"].configs["retention.ms"] = "-1"
    (check,) = [it for it in ask().checks if it.name == "retention-time"]
    assert "orders: target retention ms 604800000, source retention ms no limit" == check.observed


@pytest.mark.usefixtures("ran", "fenced")
@pytest.mark.parametrize(("knows", "passes"), [({SINCE_3_9: "false"}, True), ({}, False)])
def test_more_replicas_in_sync_than_a_copy_has_are_asked_for_by_old_brokers_alone(ask, target, knows, passes):
    """Kafka 3.7 and later take acks=all if min.insync.replicas is above the number of replicas; older ones refuse."""
    target.topics["A.orders"].configs |= {"min.insync.replicas": "2"} | knows
    (check,) = [it for it in ask().checks if it.name == "can-be-written"]
    assert passes is check.passed


@pytest.mark.usefixtures("ran")
def test_a_copy_that_is_gone_forbids_it(ask, source, target):
    """Without the source it cannot be copied again."""
    lose(source)
    del target.topics["A.orders"]
    result = ask(DEAD)
    assert "copy-there" in result.blocking
    assert {"n/a"} == {
        it.observed for it in result.checks if it.name in {"can-be-written", "every-partition-led"}
    }


@pytest.mark.usefixtures("ran", "fenced")
def test_a_topic_without_a_copy_yet_fails_once(ask, source):
    """By the check that says so: its copy has no leaders, sizes and replicas to judge."""
    source.add_topic("days")
    found = {it.name: it for it in ask().checks if "days" in it.subjects}
    assert {"copy-there"} == set(found)


@pytest.mark.usefixtures("ran", "fenced")
@pytest.mark.parametrize("side", ["source", "target"])
def test_configs_that_a_cluster_hides_forbid_it(ask, source, target, side):
    """What cannot be compared is not said to be as on the source."""
    cluster, topic = (source, "orders") if side == "source" else (target, "A.orders")
    cluster.refuse("topic_configs", topic, ClusterRefused("no DESCRIBE_CONFIGS"))
    result = ask()
    assert {"min-insync-replicas", "retention-time", "record-size", "cleanup-policy"} <= set(result.blocking)
    assert "the cluster does not tell any configuration of the topic" in str(result.checks)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("request_", [PLANNED, DEAD], ids=lambda it: it.mode.value)
def test_gaps_forbid_it_until_somebody_waives_them(ask, flow, source, target, request_):
    """For the topics that have them; another topic's waiver, or an expired one, does not count."""
    if request_ is DEAD:
        lose(source)
    gap = Gap("orders", 0, 5, 9, GapCause.RETENTION, NOW, 5)
    write_ledger(flow, target, [gap])
    assert ("no-gaps",) == ask(request_).blocking
    write_ledger(flow, target, [Waiver("no-gaps", "users", "old", "jo", NOW + HOUR, NOW)])
    write_ledger(flow, target, [Waiver("no-gaps", "orders", "too late", "jo", NOW - 1, NOW - HOUR)])
    result = ask(request_)
    assert (False, ("no-gaps",)) == (result.ready, result.blocking)
    assert [True, False] == [it.expired for it in result.waivers]
    write_ledger(flow, target, [Waiver("no-gaps", "orders", "nobody reads it", "jo", NOW + HOUR, NOW)])
    result = ask(request_)
    assert (True, (), ("no-gaps",)) == (result.ready, result.blocking, result.waived)
    check = next(it for it in result.checks if it.name == "no-gaps")
    assert (False, "nobody reads it") == (check.passed, check.waived[0].reason)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("request_", [PLANNED, DEAD], ids=lambda it: it.mode.value)
@pytest.mark.parametrize("how", ["expired", "acknowledged"])
def test_a_gap_that_is_over_forbids_nothing(ask, flow, source, target, request_, how):
    """Its records would be gone anyway, or somebody answers for it: it is shown as such, and nobody waives it."""
    gap = Gap("orders", 0, 5, 9, GapCause.RETENTION, NOW - HOUR, 5, "life", copied_past=True)
    write_ledger(flow, target, [gap])
    assert ("no-gaps",) == ask().blocking
    if how == "expired":
        for cluster, name in ((source, "orders"), (target, "A.orders")):
            cluster.topics[name].configs |= {"retention.ms": str(HOUR // 2), "cleanup.policy": "delete"}
    else:
        answer = GapAcknowledged("orders", "life", 0, 5, 9, "nobody reads it", "jo", NOW)
        write_ledger(flow, target, [answer])
    if request_ is DEAD:
        lose(source)
    result = ask(request_)
    assert ((), [how]) == (result.blocking, [it.state.value for it in result.gaps])


@pytest.mark.usefixtures("ran")
def test_a_promoted_flow_is_not_failed_over_again(ask, flow, target):
    """Nor one that is being failed over."""
    for phase in (FlowPhase.FAILING_OVER, FlowPhase.PROMOTED):
        write_ledger(flow, target, [FlowState(phase, NOW, "jo", "drill")])
        assert "flow-in-service" in ask().blocking


@pytest.mark.usefixtures("ran")
def test_a_paused_flow_is_failed_over_only_without_its_source(ask, flow, source, target):
    """As `twinlog failover` has it, which refuses a planned one."""
    write_ledger(flow, target, [FlowState(FlowPhase.PAUSED, NOW, "jo", "maintenance")])
    assert ("flow-not-paused",) == ask().blocking
    assert ("flow-not-paused",) == ask(MOVING).blocking
    lose(source)
    assert () == ask(DEAD).blocking


@pytest.mark.usefixtures("ran")
def test_state_that_is_too_old_forbids_it(ask, flow, later):
    """The last cycle is not to be relied upon for ever."""
    strict = replace(flow, gate=GateSettings(state_age_seconds=1))
    later(1_000)
    assert () == ask(settings=strict).blocking
    later(1_001)
    assert ("state-age",) == ask(settings=strict).blocking


@pytest.mark.usefixtures("ran")
def test_facts_older_than_somebody_accepted_forbid_it(ask, flow, target, later):
    """The age that was accepted grows with the clock, to the second; what was older then was never accepted."""
    strict = replace(flow, gate=GateSettings(state_age_seconds=1))
    at_ms = later(10_000)
    for up_to, blocking in ((9, ()), (7, ("state-age",))):
        yes = Accepted("state-age", "", "the source is gone", "jo", "a login", at_ms, at_ms + HOUR, up_to)
        write_ledger(flow, target, [yes])
        later(12_000)
        assert blocking == ask(settings=strict).blocking
        later(13_000)
        result = ask(settings=strict)
        assert (up_to == 9, False) == (result.ready, check_of(result, "state-age").passed)
        assert "\n" not in check_of(result, "state-age").message


@pytest.mark.usefixtures("ran")
def test_one_more_than_was_accepted_forbids_it(ask, flow, source, target, orders):
    """Two records that wait were accepted, not three; the message names the three."""
    yes = Accepted("lag-records", "orders", "they are test records", "jo", "a login", NOW, NOW + HOUR, 2)
    write_ledger(flow, target, [yes])
    for waiting, blocking in ((2, ()), (3, ("lag-records",))):
        while source.topics["orders"].logs[0].end < 5 + waiting:
            source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000))
        check = check_of(ask(), "lag-records")
        assert (blocking, False) == (("lag-records",) * check.blocks, check.passed)
        assert f"orders partition 0: missing records {waiting}, lag allowed 0" == check.observed


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("request_", [PLANNED, DEAD], ids=lambda it: it.mode.value)
def test_a_ledger_of_a_newer_twinlog_is_one_line(ask, flow, source, target, request_):
    """Nothing of it is guessed at: not what it says, and not that it says nothing."""
    if request_ is DEAD:
        lose(source)
    at = TopicPartition(flow.ledger_topic, 0)
    for key, value in ((b'["flow-state"]', b'{"version":2}'), (b'["something-new"]', b'{"version":1}')):
        target.append(at, key=key, value=value)
        with pytest.raises(FormatError) as error:
            ask(request_)
        assert ("a newer twinlog wrote it: use that release", 1) == (
            error.value.hint,
            len(str(error.value).splitlines()),
        )
        target.topics[flow.ledger_topic].logs[0].records.pop()


@pytest.mark.usefixtures("ran")
def test_a_failed_cycle_forbids_it(ask, flow, clusters):
    """Something was not copied in it."""
    copy = {"state": "failed", "records": 0, "bytes": 0, "partitions": []}
    publish.run(flow, clusters, "run-2", copy, NOW)
    assert ("last-cycle-succeeded",) == ask().blocking


@pytest.mark.usefixtures("ran")
def test_a_lost_target_is_an_error(ask, target):
    """There is nobody to fail over to."""
    lose(target)
    for request in (PLANNED, DEAD):
        with pytest.raises(ClusterUnreachable, match="cluster B is away"):
            ask(request)


@pytest.mark.usefixtures("ran")
def test_disks_that_are_not_known_are_warned_about(ask, target):
    """The gate never takes what it does not know for good."""
    target.refuse("log_dirs", "B", ClusterRefused("no"))
    result = ask()
    assert (True, True) == (result.ready, "free-disk" in failed(result))


@pytest.mark.usefixtures("ran")
def test_the_gate_changes_nothing(ask, source, target):
    """Neither cluster is written to."""
    for each in (source, target):
        each.calls.clear()
    ask()
    ask(DEAD)
    assert [[], []] == [source.calls, target.calls]


def test_the_outcome_is_kept(flow, clusters, target, orders, copied, tmp_path):
    """Page and evidence in the flow's reports, Data Docs if they are wanted, the answer in its ledger if it has one."""
    from twinlog.gate.evidence import Seal
    from twinlog.gate.record import keep

    kept_in = replace(flow, gate=GateSettings(reports=tmp_path, fence_seconds=1))
    for has_ledger in (False, True):
        if has_ledger:
            copied(orders, 0, 5)
            sync_topics.run(flow, clusters)
            publish.run(flow, clusters, "run-1", None, NOW)
        else:
            memory = target.topics.pop(flow.ledger_topic)
        by = validate if has_ledger else judge
        answer = gate.run(kept_in, clusters, PLANNED, by=by, sleep=lambda _: None)
        kept = keep(kept_in, target, answer, Seal("mm2.properties", "c"))
        if not has_ledger:
            assert flow.ledger_topic not in target.topics
            target.topics[flow.ledger_topic] = memory
    records = [parse_ledger(it.key, it.value) for it in target.topics[flow.ledger_topic].logs[0].records]
    (outcome,) = [it for it in records if isinstance(it, GateOutcome)]
    assert ("planned", False, kept.evidence_sha256) == (outcome.mode, outcome.ready, outcome.evidence_sha256)
    assert {"gate", "evidence"} == {it.name for it in (tmp_path / "A__B").iterdir()}
    assert 1 == len(list((tmp_path / "A__B" / "gate").glob("*/data-docs/partitions.html")))


@pytest.mark.usefixtures("ran")
def test_schemas_are_compared_if_the_flow_copies_them(ask, source, target, flow, clusters, copied):
    """Subjects, versions and ids as the registry keeps them; without its topic there is nothing to ask."""
    check = next(it for it in ask().checks if it.name == "schema-parity")
    assert (True, "if it does" in check.message) == (check.passed, True)
    schemas = TopicPartition("_schemas", 0)
    source.add_topic("_schemas", configs={"cleanup.policy": "compact"})
    for version in (1, 2):
        key = b'{"keytype":"SCHEMA","subject":"orders","version":%d}' % version
        source.append(schemas, key=key, value=b'{"id":%d}' % version)
    sync_topics.run(flow, clusters)
    copied(schemas, 0, 1)
    assert "schema-parity" in ask().blocking
    copied(schemas, 1, 2)
    assert "schema-parity" not in ask().blocking
    target.append(TopicPartition("A._schemas", 0), key=key, value=b'{"id":7}')
    assert "schema-parity" in ask().blocking


@pytest.mark.usefixtures("ran")
def test_twinlogs_part_of_a_failover_is_timed(ask, source):
    """In both modes, part by part."""
    assert 4 == len(ask().rehearsed)
    lose(source)
    parts = ask(DEAD).rehearsed
    assert "read the positions of all groups" in [it.part for it in parts]
    assert all(it.seconds >= 0 for it in parts)


@pytest.mark.usefixtures("ran")
def test_what_nobody_could_ask_the_source_is_not_known_to_be_copied(ask, source, flow, clusters):
    """A partition that had lost its leader before the source was lost: the last cycle saw nothing of it."""
    source.refuse("offsets", "orders", TransientError("no leader", code="no-leader"))
    publish.run(flow, clusters, "run-2", None, NOW)
    lose(source)
    result = ask(DEAD)
    assert {"known-partitions-seen", "known-rpo"} == set(result.blocking)
    assert "known-lag" in failed(result)  # how many records the copy lacks is not known: that is not 0
    assert [("orders", None, None, None)] == [
        (it.topic, it.records, it.bytes, it.seconds) for it in result.topics
    ]


@pytest.mark.usefixtures("ran")
def test_a_topic_that_was_never_copied_is_missed(ask, source, target, flow, clusters):
    """The target refused to create its copy, so nothing there is about it but what the last cycle saw."""
    source.add_topic("payments", 3)
    source.append(TopicPartition("payments", 2), key=b"k", value=b"v", timestamp=NOW - HOUR)
    target.refuse("create_topics", "A.payments", ClusterRefused("no"))
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-2", None, NOW)
    lose(source)
    result = ask(DEAD)
    assert {"copy-there", "known-rpo"} <= set(result.blocking)
    found = {it.name: it for it in result.checks}
    assert ("payments",) == found["copy-there"].subjects == found["known-rpo"].subjects
    assert "known partitions 3" in found["copy-there"].observed


@pytest.mark.usefixtures("ran", "fenced")
def test_a_copy_that_was_emptied_since_the_last_cycle_is_not_ready(
    ask, flow, clusters, source, target, orders, copied, audited
):
    """A rebuild that the source did not outlive: nobody saw what is missing, and readers have lost their places."""
    target.commit("reader", TopicPartition("A.orders", 0), 4)
    time.sleep(0.002)  # what is begun within the millisecond of the picture belongs to it
    rebuild.run(flow, clusters, "orders", by="jo", reason="drill", request="")
    found = {it.name: it for it in ask(DEAD).checks}
    never = "its copy was begun or emptied since the last cycle looked"
    assert (f"orders: age seconds not known ({never}), rpo seconds 300", ("reader",)) == (
        found["known-rpo"].observed,
        found["group-covered"].subjects,
    )
    copied(orders, 0, 5)
    state = state_topics(flow, clusters)
    life = MapKey("orders", source.topics["orders"].topic_id, 0, 0)
    map_piece = encode_segment(MapSegment(0, 5, (Extent(0, 0, 5),)))
    # Once more where cycles write it: there the rebuild forgot it.
    for it in (progress_record(state, *orders, 4), map_record(state, life, map_piece)):
        target.append(TopicPartition(it.topic, it.partition), key=it.key, value=it.value)
    publish.run(flow, clusters, "run-2", None, NOW)
    audited()
    assert {"group-covered", "source-silent"} == set(ask(DEAD).blocking)
    rebuild.run(flow, clusters, "orders", by="jo", reason="drill", request="")
    lose(source)
    assert (True, ()) == (ask(DEAD).ready, ask(DEAD).blocking)


@pytest.mark.usefixtures("ran")
def test_while_a_copy_is_being_emptied_no_picture_is_of_it(ask, flow, clusters, source, target):
    """A cycle sees nothing of a topic that is blocked."""
    lives = source.topics["orders"].topic_id, target.topics["A.orders"].topic_id
    emptied = Rebuild("orders", lives[0], "A.orders", lives[1], RebuildPhase.DELETING, "jo", "drill", NOW)
    write_ledger(flow, target, [emptied])
    publish.run(flow, clusters, "run-2", None, NOW)
    lose(source)
    assert "known-rpo" in ask(DEAD).blocking


@pytest.mark.usefixtures("ran")
def test_a_group_whose_positions_are_refused_is_not_covered(ask, flow, source, target, orders):
    """Nobody knows where it stands; a share group without a start has no place either, and is named as well."""
    source.commit("billing", orders, 5)
    source.commit("shared", orders, 5).type = GroupType.SHARE
    source.refuse("committed_offsets", "billing", ClusterRefused("no", code="unauthorised"))
    result = ask()
    assert ("group-covered",) == result.blocking
    assert {("billing", "shared")} == {it.subjects for it in result.checks if it.blocks}
    assert [("billing", None), ("shared", None)] == [(it.group, it.duplicates) for it in result.groups]
    waivers = [
        Waiver(name, group, "unused", "jo", NOW + HOUR, NOW)
        for name in result.blocking
        for group in ("billing", "shared")
    ]
    write_ledger(flow, target, waivers)
    assert ask().ready


@pytest.mark.usefixtures("ran")
def test_a_share_group_in_its_place_is_covered(ask, source, target, orders):
    """What it acknowledged behind its start offset counts as read again, unless it has members on the target."""
    source.start_share("shared", orders, 3, lag=1)
    there = target.start_share("shared", TopicPartition("A.orders", 0), 3)
    result = ask()
    assert ((), [("shared", 1)]) == (result.blocking, [(it.group, it.duplicates) for it in result.groups])
    source.start_share("shared", orders, 4)
    there.state = GroupState.STABLE
    assert {"shared"} <= {it for check in ask().checks if check.blocks for it in check.subjects}


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("ahead_ms", [None, HOUR], ids=["no timestamp", "in the future"])
def test_how_long_a_record_waits_may_not_be_known(ask, source, flow, clusters, orders, ahead_ms):
    """It may wait for longer than the RPO allows, asked while the source lives, or when it is lost."""
    timestamp = -1 if ahead_ms is None else NOW + ahead_ms
    source.append(orders, key=b"k", value=b"v", timestamp=timestamp)
    result = ask(GateRequest(Mode.PLANNED, still_writing=True))
    assert ("rpo-within-budget",) == result.blocking
    assert [("orders", 1, None)] == [(it.topic, it.records, it.seconds) for it in result.topics]
    publish.run(flow, clusters, "run-2", None, NOW)
    lose(source)
    result = ask(DEAD)
    assert ("known-rpo",) == result.blocking
    assert [("orders", 1, None)] == [(it.topic, it.known, it.seconds) for it in result.topics]


@pytest.mark.usefixtures("ran")
def test_a_clock_that_is_a_little_ahead_keeps_nothing_from_being_ready(ask, source, orders):
    """Those of a producer and of the gate differ: the record is from now."""
    source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000) + 30_000)
    assert () == ask(GateRequest(Mode.PLANNED, still_writing=True)).blocking


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("side", ["source", "target"])
def test_rights_that_cannot_be_read_may_be_missing(ask, flow, request, side):
    """Whoever does not sync them is not asked."""
    request.getfixturevalue(side).deny("describe_acls", "", ClusterRefused("no", code="unauthorised"))
    assert ("acl-parity",) == ask().blocking
    assert () == ask(settings=replace(flow, sync_topic_acls=False)).blocking


@pytest.mark.usefixtures("ran")
def test_what_blocks_at_somebodys_place_must_be_known(ask, flow, source):
    """No heartbeat ever came, quotas and configs are refused; a flow that copies no heartbeats waits for none."""
    source.deny("describe_quotas", "", ClusterRefused("no", code="unauthorised"))
    source.refuse("topic_configs", "orders", ClusterRefused("no", code="unauthorised"))
    named = ("heartbeat-age", "quota-parity", "config-drift")
    metadata = replace(flow.metadata, quotas=True)
    strict = replace(flow, gate=GateSettings(blocking=named), metadata=metadata)
    assert set(named) <= set(ask(settings=strict).blocking)
    assert set(named).isdisjoint(ask().blocking)
    quiet = ask(settings=replace(strict, heartbeats_replication=False))
    assert "heartbeat-age" not in failed(quiet)


@pytest.mark.usefixtures("ran")
def test_a_group_that_would_skip_records_is_told(ask, flow, clusters, source, target, orders):
    """Rewound on the source, or further on the target by itself: either blocks until somebody decides."""
    both = replace(flow, sync_group_offsets=True)
    source.commit("billing", orders, 4)
    checkpoints.run(both, clusters)
    source.commit("billing", orders, 1)
    result = ask(settings=both)
    assert ("group-not-rewound",) == result.blocking
    found = {it.name: it for it in result.checks}
    assert "rewound records 3" in found["group-not-rewound"].observed
    target.commit("billing", TopicPartition("A.orders", 0), 5)
    result = ask(settings=both)
    found = {it.name: it for it in result.checks}
    assert ("group-not-ahead",) == result.blocking
    assert "skipped records 4" in found["group-not-ahead"].observed


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("policy", [GroupSyncPolicy.FOLLOW, GroupSyncPolicy.FORCE])
def test_a_rewind_that_is_still_to_be_written_forbids_it(ask, flow, clusters, source, orders, policy):
    """The next cycle would take the group back; without it the group would go on where it stands."""
    both = replace(flow, sync_group_offsets=True, group_sync=GroupSyncSettings(policy))
    source.commit("billing", orders, 4)
    checkpoints.run(both, clusters)
    source.commit("billing", orders, 1)
    result = ask(settings=both)
    assert {"group-not-rewound", "final-group-pass"} == set(result.blocking)
    found = {it.name: it.observed for it in result.checks}
    assert (True, True) == (
        "rewound records 3" in found["group-not-rewound"],
        "passed on 4, translated 1" in found["final-group-pass"],
    )
    checkpoints.run(both, clusters)
    assert () == ask(settings=both).blocking


@pytest.mark.usefixtures("ran")
def test_a_place_that_a_rebuild_still_owes_forbids_it(ask, flow, source, target):
    """Also one of a group that was never on the source: it would begin nobody knows where."""
    life = source.topics["orders"].topic_id
    made = Rebuild("orders", life, "A.orders", "gone", RebuildPhase.COPYING, "jo", "drill", NOW)
    write_ledger(flow, target, [replace(made, groups=(GroupPosition("latecomer", 0, 4, 4),))])
    result = ask()
    assert ("group-covered",) == result.blocking
    assert "latecomer" in {it.name: it for it in result.checks}["group-covered"].observed
    write_ledger(flow, target, [replace(made, groups=(GroupPosition("latecomer", 0, 4, 4, restored=True),))])
    assert () == ask().blocking


@pytest.mark.usefixtures("ran")
def test_a_group_that_works_on_the_target_skips_nothing(ask, flow, clusters, source, target, orders):
    """Its members there commit for themselves."""
    source.commit("billing", orders, 1)
    target.commit("billing", TopicPartition("A.orders", 0), 5).state = GroupState.STABLE
    assert {"group-not-rewound", "group-not-ahead"}.isdisjoint(failed(ask()))


@pytest.mark.usefixtures("ran")
def test_what_was_written_in_the_future_has_no_age(ask, flow, target, audited):
    """By a machine whose clock is ahead: it would stay new until then."""
    write_ledger(flow, target, [CycleReport("run-2", {"state": "done"}, NOW + HOUR)])
    assert ("state-age",) == ask().blocking
    audited(at_ms=NOW + HOUR)
    assert {"state-age", "audit-age"} == set(ask().blocking)


STILL_WRITING = GateRequest(Mode.PLANNED, still_writing=True)


@pytest.fixture
def held(ran, source, orders):
    """`held(seconds)` lets a transaction with one record of so long ago hold back nine plain ones behind it."""

    def hold(seconds: int) -> None:
        log = source.topics["orders"].logs[0]
        for _ in range(10):
            source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000) - seconds * 1000)
        log.undecided = 10
        log.held_by = OpenTransaction(5, 17, 0, "pay-1", int(time.time() * 1000) - seconds * 1000, 60_000)

    return hold


def check_of(result, name):
    return next(it for it in result.checks if it.name == name)


@pytest.fixture
def patient(flow):
    """The flow with an RPO of a day, so that it is not what forbids anything."""
    return replace(flow, tiers=(Tier(rpo_seconds=86_400),))


@pytest.mark.parametrize("request_", [PLANNED, STILL_WRITING], ids=["planned", "still writing"])
def test_a_transaction_that_never_ends_forbids_it(ask, held, patient, request_):
    """It is named, with who holds it; one that is young forbids only what needs the last record."""
    held(3600)
    result = ask(request_, patient)
    check = check_of(result, "transactions-end")
    assert ("transactions-end" in result.blocking, ("orders",)) == (True, check.subjects)
    assert "10 records from upstream offset 5 on are undecided" in check.message
    assert "transactional id pay-1" in check.message
    assert [("orders", 10, 10)] == [(it.topic, it.records, it.undecided) for it in result.topics]


def test_a_young_transaction_forbids_only_what_needs_the_last_record(ask, held, patient):
    """While producers write there is always one."""
    held(100)
    assert () == ask(STILL_WRITING, patient).blocking
    assert {"lag-records", "source-fenced"} == set(ask(PLANNED, patient).blocking)


def test_a_transaction_without_a_time_forbids_it(ask, held, patient, source):
    """It may be a year old."""
    held(0)
    log = source.topics["orders"].logs[0]
    log.records = [it._replace(timestamp=-1) for it in log.records]
    log.held_by = None
    assert {"transactions-end", "rpo-within-budget"} == set(ask(STILL_WRITING, patient).blocking)


def test_without_the_source_the_last_cycle_tells_of_open_transactions(ask, held, patient, source, clusters):
    """Of those that were open for too long then, and who held them."""
    held(3600)
    publish.run(patient, clusters, "run-2", None, NOW)
    lose(source)
    result = ask(DEAD, patient)
    assert ("known-transactions-end",) == result.blocking
    assert "transactional id pay-1" in check_of(result, "known-transactions-end").message
    assert [("orders", 10, 10)] == [(it.topic, it.known, it.undecided) for it in result.topics]
    assert "known-lag" in failed(result)


def test_a_picture_of_an_older_twinlog_tells_nothing_of_open_transactions(ask, ran, flow, source, target):
    """Nobody had looked: that is not known, and not 0."""
    known = read_ledger(flow, target).known_source
    write_ledger(flow, target, [KnownSource(known.at_ms, known.topic_count, known.topics)])
    lose(source)
    result = ask(DEAD)
    assert ("known-transactions-end",) == result.blocking
    assert "not known" in check_of(result, "known-transactions-end").observed


@pytest.mark.usefixtures("ran")
def test_a_users_topic_called_as_heartbeats_are_is_a_users_topic(ask, source, clusters, flow):
    """Its lag, its audit and its producers count."""
    name = TopicPartition("device.heartbeats", 0)
    source.add_topic(name.topic)
    source.append(name, key=b"k", value=b"v", timestamp=int(time.time() * 1000))
    sync_topics.run(flow, clusters)
    result = ask(meanwhile=lambda _: source.append(name, key=b"k", value=b"v", timestamp=NOW))
    for check in ("lag-records", "source-fenced"):
        assert check in result.blocking
    assert ("device.heartbeats",) == check_of(result, "lag-records").subjects
    assert True is next(it.moving for it in result.topics if it.topic == name.topic)


@pytest.mark.usefixtures("ran")
def test_a_topic_that_cannot_be_described_does_not_stand_still(ask, source):
    """Nobody could watch it."""
    source.refuse("describe_topics", "orders", ClusterRefused("no"))
    assert "source-fenced" in ask().blocking


@pytest.fixture
def fresh(ran, source, target):
    """Everything is copied, audited, and young: no retention of either side would delete it."""
    for cluster, name in ((source, "orders"), (target, "A.orders")):
        log = cluster.topics[name].logs[0]
        log.records = [it._replace(timestamp=NOW) for it in log.records]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("request_", [PLANNED, MOVING], ids=str)
def test_a_copy_that_somebody_deleted_from_is_not_ready(ask, target, source, request_):
    """The source holds the records, the copy had proved them, and its retention cannot have been it."""
    assert () == ask(request_).blocking
    target.delete_records(TopicPartition("A.orders", 0), 3)
    check = check_of(ask(request_), "nothing-deleted-early")
    assert (False, "3") == (check.passed, str(check.observed).rsplit(" ", 1)[-1])
    assert "twinlog topics rebuild" in check.message
    source.delete_records(TopicPartition("orders", 0), 3)
    assert () == ask(request_).blocking, "neither side has them"


@pytest.mark.usefixtures("ran")
def test_a_copy_that_kept_its_records_for_a_shorter_time_is_told_so(ask, target):
    """Its own retention explains it: no check of deleted records fails, and the advice is about that retention."""
    target.delete_records(TopicPartition("A.orders", 0), 3)
    result = ask()
    assert check_of(result, "nothing-deleted-early").passed
    coverage = check_of(result, "audit-coverage")
    assert (False, True) == (coverage.passed, "retention.ms" in coverage.message)
    (orders,) = (it for it in result.coverage if it.topic == "orders")
    assert (UnprovedCount("target-retention", 3),) == orders.unproved


@pytest.mark.usefixtures("ran")
def test_without_the_source_the_last_audit_tells_what_was_deleted_early(ask, audited, source):
    """It can no longer be asked what it holds."""
    audited(at_ms=NOW - HOUR, proved=2, reason=Unproved.DELETED_EARLY)
    lose(source)
    result = ask(DEAD)
    assert "known-deleted-early" in result.blocking
    age = time.time() - (NOW - HOUR) / 1000
    assert age == pytest.approx(check_of(result, "known-deleted-early").age_seconds, abs=600)


@pytest.mark.parametrize("audit_first", [True, False])
def test_a_copy_that_has_expired_on_both_sides_needs_no_audit(
    ask, flow, source, target, clusters, orders, copied, audited, audit_first
):
    """The map still speaks of its records; the copy holds none, whatever an audit said before or could say."""
    copied(orders, 0, 5)
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-1", None, NOW)
    if audit_first:
        audited(proved=0)
    source.delete_records(orders, 5)
    target.delete_records(TopicPartition("A.orders", 0), 5)
    assert set() == {"audit-age", "audit-promised"} & set(ask().blocking)


@pytest.mark.usefixtures("ran")
def test_ready_says_what_is_undecided(ask, source, orders):
    """A young transaction forbids nothing while producers write; its records are on no target all the same."""
    source.append(orders, key=b"k", value=b"v", timestamp=int(time.time() * 1000))
    source.topics["orders"].logs[0].undecided = 1
    result = ask(GateRequest(Mode.PLANNED, still_writing=True))
    expected = "READY; 1 record is missing on the target, 1 of them behind open transactions"
    assert (True, 1, expected) == (result.ready, result.undecided_records, result.headline)


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("request_", [PLANNED, DEAD], ids=lambda it: it.mode.value)
def test_others_who_may_write_to_the_flows_state_are_warned_about(ask, flow, target, monkeypatch, request_):
    """By name, and never blocking; a target that hides its ACLs leaves it not known, and says so."""

    def check():
        return next(it for it in ask(request_).checks if it.name == "state-writers")

    mallory = AclBinding("TOPIC", "LITERAL", flow.ledger_topic, "User:mallory", "*", "WRITE", "ALLOW")
    monkeypatch.setattr(target, "describe_acls", lambda: (mallory,), raising=False)
    found = check()
    assert (False, Severity.WARNING, True) == (found.passed, found.severity, "User:mallory" in found.message)

    def hidden():
        raise ClusterRefused("no DESCRIBE", cluster="B", code="CLUSTER_AUTHORIZATION_FAILED")

    monkeypatch.setattr(target, "describe_acls", hidden, raising=False)
    assert (False, True) == (check().passed, "not known (no DESCRIBE)" in check().message)

    def without_authorizer():
        raise ClusterRefused("no authorizer", cluster="B", code="no-authorizer")

    monkeypatch.setattr(target, "describe_acls", without_authorizer, raising=False)
    assert "n/a" == check().observed


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize(("by", "passed"), [("mirrormaker2", True), ("mirroring", False), ("other", False)])
def test_where_groups_stand_nobody_knows_of_an_engine_without_checkpoints(
    flow, clusters, source, target, by, passed
):
    """Without the source: no group is no 0 of groups."""
    lose(source)
    flow = replace(flow, copied_by=CopiedBy(by))
    facts = gate.see_target(FlowSnapshot(flow, clusters)).facts
    rows = read_target(flow, (), facts).rows
    (suite,) = (it for it in asked(Use.SOURCE_DEAD, observed=True) if it.name == "groups")
    covered = next(it for it in judge(suite, rows).results if it.name == "group-covered")
    assert (passed, [] if passed else [None]) == (covered.passed, [it.short for it in covered.offences])


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("synced", [True, False])
def test_rights_of_a_promoted_flow_are_compared_by_the_profile_that_it_was_promoted_with(
    ask, flow, target, synced
):
    """They could be compared: it is not said that they may differ."""
    write_ledger(flow, target, [FlowState(FlowPhase.PROMOTED, NOW, "jo", "drill")])
    assert "acl-parity" not in ask(settings=replace(flow, sync_topic_acls=synced)).blocking

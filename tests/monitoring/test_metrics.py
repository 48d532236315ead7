"""A flow's numbers as Prometheus reads them: in the text file, and over HTTP."""

from __future__ import annotations

import logging
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from twinlog.airflow.gauges import of_gate
from twinlog.config.flow.metrics import Listen, MetricsSettings
from twinlog.duties.plan import DutyState
from twinlog.errors import ClusterRefused, TransientError
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.follow import background
from twinlog.follow.report import EndedLanes, LaneTeller, Reporter, RunState
from twinlog.formats.lane_counts import NO_COUNTS, UNKNOWN, LaneCounts
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.ledger.gate import GateOutcome
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.records import GapCause
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.formats.ledger.topics import Gap, Incarnation
from twinlog.formats.mm2.records import Heartbeat
from twinlog.gate.answer import GateResult
from twinlog.judge.check import CheckResult, Mode, Severity
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import exporter, metrics, publish
from twinlog.monitoring.exporter import Board, Endpoints, families, registry_of
from twinlog.monitoring.metrics import METRICS, OTHER, Kind, Metric, Rest, shown
from twinlog.monitoring.samples import of_checks, of_duties, of_observed
from twinlog.state.ledger import write_ledger
from twinlog.topics import pauses
from twinlog.topics.snapshot import FlowSnapshot

Numbers = dict[tuple[str, ...], float]


def numbers_of(text: str) -> Numbers:
    """Every sample by its name without `twinlog_`, and its labels but the flow."""
    return {
        (
            it.name.removeprefix("twinlog_"),
            *[value for name, value in it.labels.items() if name != "flow"],
        ): it.value
        for family in text_string_to_metric_families(text)
        for it in family.samples
    }


@pytest.fixture
def published(flow, clusters, tmp_path) -> Callable[[], Numbers]:
    """`published()` reports a cycle, and returns what stands in the flow's file."""

    def publish_and_read() -> Numbers:
        shown = replace(flow, metrics=MetricsSettings(folder=tmp_path))
        publish.run(shown, clusters, "run", None, int(time.time() * 1000))
        return numbers_of((tmp_path / "twinlog-A__B.prom").read_text())

    return publish_and_read


class TestFile:
    """What each cycle writes into `twinlog.metrics.folder`."""

    def test_gaps_pauses_and_lag_stand_in_the_flows_file(
        self, flow, clusters, orders, copied, target, published
    ) -> None:
        """A gap says whether the copy went on behind it."""
        sync_topics.run(flow, clusters)
        copied(orders, 0, 3)
        write_ledger(flow, target, [Gap("orders", 0, 7, 9, GapCause.RETENTION, 1, 3)])
        pauses.pause(flow, target, topics=["orders"], by="jo", reason="load")
        assert {
            ("lag_records", "orders"): 2,
            ("rpo_budget_seconds", "orders"): flow.tier_of("orders").rpo_seconds,
            ("gap_records", "retention", "stopped", "orders"): 3,
            ("paused_topics",): 1,
            ("flow_active",): 1,
        }.items() <= published().items()

    def test_a_folder_that_is_not_there_is_made(self, flow, clusters, orders, copied, tmp_path) -> None:
        """Nobody has to make it on every worker."""
        copied(orders, 0, 3)
        deep = tmp_path / "a" / "b"
        publish.run(replace(flow, metrics=MetricsSettings(folder=deep)), clusters, "run", None, 0)
        assert ["twinlog-A__B.prom"] == [it.name for it in deep.iterdir()]

    def test_numbers_that_cannot_be_written_fail_no_cycle(
        self, flow, clusters, orders, copied, tmp_path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its report is kept and returned, and a warning names the setting."""
        caplog.set_level(logging.WARNING)
        copied(orders, 0, 3)
        (tmp_path / "file").touch()
        unwritable = replace(flow, metrics=MetricsSettings(folder=tmp_path / "file"))
        assert "run" == publish.run(unwritable, clusters, "run", None, 0).run_id
        assert "metrics cannot be written (twinlog.metrics.folder)" in caplog.text

    def test_records_behind_an_open_transaction_have_numbers_of_their_own(
        self, orders, copied, source, published
    ) -> None:
        """They are no lag, and the RPO counts them."""
        copied(orders, 0, 3)
        source.topics["orders"].logs[0].undecided = 2
        numbers = published()
        assert {
            ("lag_records", "orders"): 0,
            ("undecided_records", "orders"): 2,
            ("unseen_partitions",): 0,
        }.items() <= numbers.items()
        assert numbers["rpo_seconds",] == pytest.approx(numbers["undecided_seconds",])
        assert numbers["lag_seconds", "orders"] > 3600


class TestAbsent:
    """What was not looked at, or is not known, has no number: 0 would be good news."""

    def test_an_age_that_nobody_knows_is_absent(self, orders, copied, source, published) -> None:
        """And is there again, as 0, once it is known that nothing waits."""
        copied(orders, 0, 5)
        ages = {("rpo_seconds",), ("undecided_seconds",), ("lag_seconds", "orders")}
        assert {0} == {published()[it] for it in ages}
        source.append(orders, key=b"k", value=b"v", timestamp=-1)
        source.topics["orders"].logs[0].undecided = 1
        assert set() == ages & published().keys()

    def test_a_topic_that_could_not_be_read_has_no_lag(self, orders, copied, source, published) -> None:
        """Its partition is counted as unseen instead."""
        copied(orders, 0, 5)
        assert 0 == published()["lag_records", "orders"]
        source.refuse("offsets", "orders", ClusterRefused("no"))
        numbers = published()
        assert 1 == numbers["unseen_partitions",]
        assert [] == [it for it in numbers if it[0] in ("lag_records", "lag_seconds", "rpo_seconds")]

    def test_what_never_was_is_absent(self, orders, copied, published) -> None:
        """No heartbeat, audit, drill or checkpoint; nobody who leads; checks that were not asked."""
        copied(orders, 0, 5)
        there = {it[0] for it in published()}
        assert {"audit_coverage_ratio"} == {
            it for it in there if it.startswith(("audit", "drill", "heartbeat"))
        }
        assert set() == there & {
            "leads",
            "failed_checks",
            "groups",
            "checkpoint_latency_ms",
            "record_count_total",
        }

    def test_a_copy_that_was_never_audited_is_not_covered(self, orders, copied, published) -> None:
        """That is bad news, and known."""
        copied(orders, 0, 5)
        assert 0 == published()["audit_coverage_ratio", "orders"]

    def test_a_kind_of_finding_is_absent_before_all_was_looked_at(self, flow, clusters, orders) -> None:
        """Records at the copy's end that are like none of the source may be of any kind but missing."""
        facts = seen_in(observe(FlowSnapshot(flow, clusters)), orders, {"unmatched_since": 1})
        told = {it.labels: it.value for it in of_observed(facts)}
        assert {
            ("orders", "missing"): 0,
            ("orders", "doubled"): 4,
            **{("orders", kind): None for kind in ("changed", "reordered", "foreign")},
        } == told

    def test_a_number_that_nobody_told_for_a_while_is_gone(self, flow, monkeypatch) -> None:
        """But when the newest report was made stays: an alarm asks for it."""
        board = Board(flow)
        board.tell("report", [metrics.PAUSED_TOPICS.of(0)])
        board.tell("reported", [metrics.CYCLE_TIMESTAMP_SECONDS.of(5)], float("inf"))
        assert 2 == len(board.now())
        later = time.monotonic() + exporter.KEPT_SECONDS + 1
        monkeypatch.setattr(exporter.time, "monotonic", lambda: later)
        assert [metrics.CYCLE_TIMESTAMP_SECONDS.of(5)] == list(board.now())


def seen_in(facts: FlowFacts, at: TopicPartition, carried: dict[str, int]) -> FlowFacts:
    """Return facts of a copy in which another engine has left four records twice."""
    (topic,) = (it for it in facts.topics if it.topic == at.topic)
    life = topic.topic, topic.topic_id, at.partition
    seen = Observed(*life, topic.remote_topic, "", 0, 5, 5, 9, 5, {"doubled": 4}, {}, (), 0, 0, 1, carried)
    return replace(facts, ledger=replace(facts.ledger, observed={SourceIncarnation(*life): seen}))


def test_every_declared_metric_is_exported(
    flow, clusters, source, target, orders, copied, tmp_path, lane_tells
) -> None:
    """A cycle, a run that follows, its checkpoints and duties, and the gate: each number has somebody who tells it."""
    flow = replace(flow, metrics=MetricsSettings(folder=tmp_path), sync_group_offsets=True)
    board = Board(flow)
    told_everything(flow, clusters, board, orders, copied, lane_tells)
    text = next(iter(tmp_path.iterdir())).read_text()
    exported = {name for name, *_ in numbers_of(text)}
    wanted = {it.exported.removeprefix("twinlog_") for it in METRICS.values()}
    told_later = {
        "leads",
        "observed_records",
        "duty_failed",
        *(it.name for it in METRICS.values() if it.part is metrics.Part.GATE),
    }
    assert wanted - told_later == exported
    gate = of_gate(flow, GateResult("A->B", Mode.PLANNED, True, 0, False, (), (), ()))
    duties = of_duties({"audit": DutyState.DONE is DutyState.FAILED})
    facts = observe(FlowSnapshot(flow, clusters))
    later = [*duties, *gate, metrics.LEADS.of(1), *of_observed(seen_in(facts, orders, {}))]
    assert told_later == {it.metric.name for it in later if it.value is not None}


def told_everything(flow, clusters, board: Board, orders: TopicPartition, copied, lane_tells) -> None:
    """Report twice a run that follows, of a flow of which there is everything to tell."""
    source, target, now = clusters.source, clusters.target, int(time.time() * 1000)
    life = source.topics["orders"].topic_id, target.topics["A.orders"].topic_id
    blocked = source.add_topic("blocked")
    target.add_topic("A.heartbeats")
    beat = Heartbeat("A", "A", now)
    target.append(TopicPartition("A.heartbeats", 0), key=beat.key(), value=beat.value(), timestamp=now)
    write_ledger(
        flow,
        target,
        [
            Gap("orders", 0, 7, 9, GapCause.RETENTION, 1, 3),
            PartitionAudit("orders", life[0], 0, "A.orders", life[1], 0, 3, 3, 3, 3, 0, (), 0, (), now),
            Incarnation("blocked", blocked.topic_id, 1, "A.blocked"),  # its copy was deleted
            GateOutcome("planned", True, now, (), (), "ab"),
            DrillRun("drill", DrillState.PASSED, "jo", now, now, rto_seconds=3.0, rpo_seconds=0.0),
        ],
    )
    copied(orders, 0, 3)
    source.commit("billing", orders, 2)
    state = RunState("run", now)
    reporter, turns = Reporter(state, board=board), background.turns(flow, state, board=board)
    next(it for it in turns if it.name == "checkpoints").step(flow, clusters)
    state.starts, state.ended = {orders: 0}, EndedLanes(latency_ms={orders: 4}, open_ms=7)
    lane_tells(orders, NO_COUNTS._replace(fence_ms=7))
    for _ in range(2):
        next(it for it in turns if it.name == "lanes").step(flow, clusters)
        with pytest.raises(TransientError, match="nothing-blocked"):
            reporter.report(flow, clusters)


class TestFollowing:
    """What a run that follows tells beside its reports."""

    def test_what_open_lanes_have_committed_counts(self, flow, clusters, orders, lane_tells) -> None:
        """On top of those that have ended; what lanes of another fence have told is in those."""
        board, state = Board(flow), RunState("run", 0)
        teller = LaneTeller(state, board)
        teller.tell(flow, clusters)
        assert () == board.now(), "before lanes were opened, 0 would say that nothing was copied"
        lane = LaneCounts(7, 1, 5_000, 4, 1, 500, 90, 20, 3_000, 15, 2_000)
        lane_tells(orders, lane)
        lane_tells(TopicPartition("orders", 1), lane._replace(at_ms=4_000, commits=3, behind=99))
        lane_tells(TopicPartition("orders", 2), lane._replace(fence_ms=6, lane=0))
        state.ended = EndedLanes({orders: 3}, {orders: 300}, 2, 1, 1_000, open_ms=7)
        teller.tell(flow, clusters)
        assert (33, 4_300, 6, 2, 1.5, 90, 5) == tuple(
            only(board, it)
            for it in (
                metrics.RECORD_COUNT,
                metrics.BYTE_COUNT,
                metrics.TRANSACTIONS,
                metrics.TRANSACTION_RETRIES,
                metrics.THROTTLED_SECONDS,
                metrics.LANE_BEHIND_RECORDS,
                metrics.LANE_COMMIT_TIMESTAMP_SECONDS,
            )
        )
        lane_tells(orders, lane._replace(partition_bytes=2_500, behind=UNKNOWN))
        teller.tell(flow, clusters)
        assert only(board, metrics.BYTE_RATE) > 0
        assert 0 == only(board, metrics.RECORD_RATE)
        state.ended = EndedLanes({}, {orders: 4_800})
        teller.tell(flow, clusters)
        assert 4_800 == only(board, metrics.BYTE_COUNT)
        assert not {it for it in board.now() if "lane" in it.metric.labels}, "no lane is open"

    def test_latency_is_that_of_the_slowest_partition(self, flow, clusters, orders, copied) -> None:
        """A topic of which the last lane generation copied nothing has none."""
        copied(orders, 0, 3)
        board, state = Board(flow), RunState("run", 0)
        others = TopicPartition("orders", 1), TopicPartition("orders", 2)
        state.ended = EndedLanes(latency_ms={orders: 5, others[0]: 70, others[1]: 8})
        reporter = Reporter(state, board=board)
        reporter.report(flow, clusters)
        assert 70 == only(board, metrics.REPLICATION_LATENCY_MS)
        state.ended = EndedLanes()
        reporter.report(flow, clusters)
        assert metrics.REPLICATION_LATENCY_MS not in {it.metric for it in board.now()}

    def test_checkpoints_tell_every_state(self, flow, clusters, source, orders, copied) -> None:
        """A state without a position is 0, because all were looked at."""
        copied(orders, 0, 5)
        source.commit("billing", orders, 2)
        flow, board = replace(flow, sync_group_offsets=True), Board(flow)
        turns = background.turns(flow, RunState("run", 0), board=board)
        next(it for it in turns if it.name == "checkpoints").step(flow, clusters)
        states = {it.labels: it.value for it in board.now() if it.metric is metrics.GROUP_POSITIONS}
        assert {("synced",): 1, ("intentionally-not",): 0, ("wrongly-not",): 0} == states
        assert 0 <= only(board, metrics.CHECKPOINT_LATENCY_MS) < 10_000


def only(board: Board, metric: Metric) -> float:
    """The one value of a metric."""
    [sample] = [it for it in board.now() if it.metric is metric]
    assert sample.value is not None
    return sample.value


def test_failed_checks_are_counted_by_severity() -> None:
    """A severity without any is 0, so that an alarm goes off again."""
    checks = [
        CheckResult(name, severity, passed, "", "", "")
        for name, severity, passed in (
            ("a", Severity.CRITICAL, True),
            ("b", Severity.WARNING, False),
            ("c", Severity.WARNING, False),
        )
    ]
    assert {("critical",): 0, ("warning",): 2} == {it.labels: it.value for it in of_checks(checks)}


class TestManyTopics:
    """Topics beyond the 500th are one."""

    @given(st.lists(st.integers(0, 9), max_size=8), st.integers(0, 9))
    def test_no_record_is_lost(self, lags: list[int], most: int) -> None:
        """Sums stay, the worst age stays, and there are at most so many topics and one."""
        lag = [metrics.LAG_RECORDS.of(it, f"t{number}") for number, it in enumerate(lags)]
        age = [metrics.LAG_SECONDS.of(it, f"t{number}") for number, it in enumerate(lags)]
        kept = shown([*lag, *age], most)

        def of(metric: Metric) -> list[float]:
            return [it.value or 0 for it in kept if it.metric is metric]

        assert sum(lags) == sum(of(metrics.LAG_RECORDS))
        assert max(lags, default=None) == max(of(metrics.LAG_SECONDS), default=None)
        assert min(len(lags), most + 1) == len(of(metrics.LAG_RECORDS))

    def test_the_others_have_a_name_that_no_topic_has(self) -> None:
        """Which ones are others is not up to their lag, or series would come and go."""
        kept = shown([metrics.LAG_RECORDS.of(it, f"t{it}") for it in (3, 1, 2)], 1)
        assert {"t1": 1, OTHER: 5} == {it.topic: it.value for it in kept}

    def test_what_is_not_known_of_one_of_them_is_not_known_of_all(self) -> None:
        """Or the oldest record would be younger than it may be."""
        ages = [metrics.LAG_SECONDS.of(it, name) for name, it in (("a", 1.0), ("b", None), ("c", 2.0))]
        assert ["a"] == [it.topic for it in shown(ages, 1)]

    def test_every_metric_of_topics_says_how_they_become_one(self) -> None:
        """Ages by the oldest, budgets and coverage by the least, everything else is a sum."""
        rests = {
            it.name: it.rest for it in METRICS.values() if "topic" in it.labels and it.rest is not Rest.SUM
        }
        assert {
            "lag_seconds": Rest.MOST,
            "audit_age_seconds": Rest.MOST,
            "replication_latency_ms": Rest.MOST,
            "rpo_budget_seconds": Rest.LEAST,
            "audit_coverage_ratio": Rest.LEAST,
        } == rests


class TestEndpoint:
    """`twinlog.metrics.listen`."""

    @pytest.fixture
    def address(self) -> Listen:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return Listen(*free.getsockname())

    def test_flows_at_one_address_are_served_together(self, flow, address) -> None:
        """Each sample names its flow; the numbers are those of the moment they are asked for."""
        boards = [
            Board(replace(flow, metrics=MetricsSettings(listen=address), source=it)) for it in ends(flow)
        ]
        with Endpoints(boards, lambda line: None) as endpoints:
            endpoints.attend()
            for board in boards:
                board.tell("leads", [metrics.LEADS.of(1)])
            text = asked(address)
        assert {"A->B", "B->B"} == {
            it.labels["flow"] for family in text_string_to_metric_families(text) for it in family.samples
        }
        assert "# TYPE twinlog_leads gauge" in text

    def test_a_flow_without_an_address_is_not_served(self, flow) -> None:
        """Nothing listens unless it is asked to."""
        assert () == Endpoints([Board(flow)], print).all

    def test_a_taken_address_is_told_once_and_taken_when_it_is_free(self, flow, address, monkeypatch) -> None:
        """The run goes on meanwhile: copies matter more than numbers."""
        monkeypatch.setattr(exporter, "AGAIN_SECONDS", 0.0)
        lines: list[str] = []
        board = Board(replace(flow, metrics=MetricsSettings(listen=address)))
        board.tell("leads", [metrics.LEADS.of(0)])
        with Endpoints([board], lines.append) as endpoints:
            with socket.create_server(address):
                endpoints.attend()
                endpoints.attend()
            [line] = lines
            assert line.startswith(
                f"no metrics at {address}: Address already in use (twinlog.metrics.listen)"
            )
            endpoints.attend()
            assert [f"metrics at http://{address}/metrics"] == lines[1:]
            assert {("leads",): 0} == numbers_of(asked(address))


def ends(flow) -> tuple:
    return flow.source, flow.target


def asked(address: Listen) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        return answer.read().decode()


def test_a_family_has_one_type_and_its_help(flow) -> None:
    """Counters end with `_total`, as Prometheus wants them."""
    found = {it.name: it for it in families({"A->B": [it.of(1, *it.labels) for it in METRICS.values()]})}
    assert len(METRICS) == len(found)
    for metric in METRICS.values():
        family = found[f"twinlog_{metric.name}"]
        assert (metric.kind.value, metric.help) == (family.type, family.documentation)
        assert metric.exported == family.samples[0].name
    counters = {"record_count", "byte_count", "transactions", "transaction_retries", "throttled_seconds"}
    assert counters == {it.name for it in METRICS.values() if it.kind is Kind.COUNTER}


def test_a_registry_shows_what_the_board_holds_now(flow) -> None:
    """Not what it held when the registry was made."""
    board = Board(flow)
    registry = registry_of([board])
    assert [] == list(registry.collect())
    board.tell("leads", [metrics.LEADS.of(1)])
    board.tell("leads", [metrics.LEADS.of(0)])
    assert Counter({0.0: 1}) == Counter(it.value for family in registry.collect() for it in family.samples)
    board.clear()
    assert [] == list(registry.collect())

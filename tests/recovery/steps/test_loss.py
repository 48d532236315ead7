"""What is lost with the source: known by the last report, estimated by the rate before it."""

from __future__ import annotations

import pytest
from recovery_world import COPY as COPY_OF
from recovery_world import ORDERS, World

from twinlog import clock
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.recovery.report import PartitionAtRisk, TopicAtRisk
from twinlog.recovery.steps import loss
from twinlog.recovery.steps.loss import Loss, Newest, last_moment, rate_before, read_loss
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot


def newest(*times: int, whole: bool = False) -> Newest:
    """Records of these times, the last of a log."""
    return Newest([ReadRecord(number, at, None, None) for number, at in enumerate(times)], whole)


class TestRateBefore:
    def test_counts_the_minute_before(self):
        """Records of earlier times, and of a time after the report, do not count."""
        assert 3 / 60 == pytest.approx(rate_before(newest(1, 60_001, 70_000, 120_000, 120_001), 120_000))

    def test_counts_a_young_log_over_the_minute(self):
        """All that the log ever held came in the last second: what was there before is known to be nothing."""
        assert 2 / 60 == pytest.approx(rate_before(newest(119_500, 120_000, whole=True), 120_000))

    @pytest.mark.parametrize("later", [(), (500_000,)], ids=["alone", "with-a-time-to-come"])
    def test_a_busy_partition_is_measured_by_what_was_read(self, later: tuple[int, ...]):
        """All that was read lies in the last second, and markers took many of the offsets: that span counts."""
        times = range(119_000, 120_000, 2)
        assert 500 == pytest.approx(rate_before(newest(*times, *later), 120_000), rel=0.01)

    def test_nothing_lately(self):
        """A partition that stood still loses nothing more, as far as anybody knows."""
        assert 0 == rate_before(newest(1), 10**9)


class TestLastMoment:
    def test_is_that_of_the_newest_copy(self):
        """A flow that follows has copied since its last report; a time to come is none of the source's."""
        assert 7_000 == last_moment(5_000, {COPY_OF: newest(7_000, 99_000)}, 10_000)

    def test_is_that_of_the_report_if_nothing_came_since(self):
        """A quiet flow is known to be quiet up to its last report."""
        assert 5_000 == last_moment(5_000, {COPY_OF: newest(4_000)}, 10_000)


class TestReadLoss:
    @pytest.fixture
    def later(self, world: World, monkeypatch: pytest.MonkeyPatch) -> World:
        """Ten records a second were copied in the five seconds after the last report; then five seconds nothing."""
        report = read_ledger(world.flow, world.clusters.target).last_report
        assert report is not None
        for number in range(50):
            world.clusters.source.append(ORDERS, key=b"k", value=b"v", timestamp=report.at_ms + 100 * number)
        world.copy(world.flow)
        monkeypatch.setattr(loss, "RECORDS", 30)
        monkeypatch.setattr(clock, "now_ms", lambda: report.at_ms + 9_900)
        return world

    def test_a_flow_that_copied_on_after_its_report_estimates_by_what_it_copied(self, later: World):
        """The newest records are all behind the last report: they tell the rate, and when it ended."""
        found = read_loss(FlowSnapshot(later.flow, later.clusters))
        (part,) = found.topics[0].partitions
        assert (0, 50) == (part.known, pytest.approx(part.estimated_records, abs=2))
        assert "its newest copied record is of" in found.told

    def test_what_clients_of_the_target_write_behind_the_copies_tells_nothing_of_the_source(
        self, later: World
    ):
        """The source is not known to have lived as long as they write."""
        for _ in range(40):
            later.clusters.target.append(COPY_OF, key=b"k", value=b"ours", timestamp=clock.now_ms())
        (part,) = read_loss(FlowSnapshot(later.flow, later.clusters)).topics[0].partitions
        assert 50 == pytest.approx(part.estimated_records, abs=2)

    def test_a_map_that_cannot_be_read_stops_no_estimate(self, later: World):
        """A segment whose end is cut off: the end of the log counts instead."""
        target, log = later.clusters.target, TopicPartition(later.flow.offset_map_topic, 0)
        newest = target.topics[log.topic].logs[0].records[-1]
        target.append(log, key=newest.key, value=newest.value[:-1])
        (part,) = read_loss(FlowSnapshot(later.flow, later.clusters)).topics[0].partitions
        assert 50 == pytest.approx(part.estimated_records, abs=2)

    def test_names_what_the_last_cycle_could_not_look_into(self, world: World):
        """A topic that is blocked, as one that was created again, may have any number of records."""
        del world.clusters.source.topics["orders"]
        world.clusters.source.add_topic("orders")
        world.cycle()
        found = read_loss(FlowSnapshot(world.flow, world.clusters))
        assert (None, "1 partition(s) of orders") == (found.known, found.unread)
        assert [True] == [it.unseen for it in found.topics[0].partitions]

    def test_an_empty_partition_was_seen(self, world: World):
        """Nothing of it is at risk, and that is known."""
        world.clusters.source.add_topic("empty", 2)
        world.cycle()
        found = {it.topic: it.partitions for it in read_loss(FlowSnapshot(world.flow, world.clusters)).topics}
        assert {"orders": [False], "empty": [False, False]} == {
            topic: [it.unseen for it in partitions] for topic, partitions in found.items()
        }


class TestLoss:
    TOPICS = (TopicAtRisk("orders", "A.orders", (PartitionAtRisk(0, 9, 9, 2, 5),)),)

    def test_what_no_cycle_could_look_into_is_named_and_not_counted(self):
        """A number that leaves partitions out is not the number of all."""
        found = Loss(self.TOPICS, 1_000, None, "as of then", "2 partitions of again")
        assert None is found.known
        assert (
            "2 records are known to be lost, about 5 in all if clients wrote at that rate until now, and what"
            " 2 partitions of again had besides is not known; as of then" == found.told
        )

    def test_what_is_known(self):
        """The numbers, how much time can be missing, rounded up, and what they rest on."""
        found = Loss(self.TOPICS, 1_000, 12.4, "as of then")
        assert 2 == found.known
        assert (
            "2 records are known to be lost, about 5 in all if clients wrote at that rate until now;"
            " at most the last 13 s; as of then" == found.told
        )

    def test_a_guess_of_nothing_is_no_number(self):
        """Nothing was written in the minute before: that says nothing of what came since."""
        still = (TopicAtRisk("orders", "A.orders", (PartitionAtRisk(0, 9, 9, 0, 0),)),)
        assert (
            "0 records are known to be lost, what came since is not known"
            == Loss(still, 1_000, 12.4, "").cost
        )

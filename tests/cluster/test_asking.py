"""The list of requests (`requests`), and asking a cluster each that changes nothing (`asking`)."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.cluster import asking
from twinlog.cluster.asking import QUESTIONS, RefusedUse, Sample, needed, refused_requests
from twinlog.cluster.permissions.requests import SOURCE, TARGET, USES, Cost
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition

SAMPLE = Sample("orders", "billing")


def names(flow: FlowSettings, side: str) -> set[str]:
    return {it.name for it in needed(flow, side)}


class TestTheList:
    def test_each_request_of_a_side_is_listed_once(self) -> None:
        """The tests on real brokers find a row by side and key."""
        assert len(USES) == len({(it.side, it.key) for it in USES})

    @pytest.mark.parametrize(
        ("changes", "side", "without"),
        [
            ({"sync_topic_acls": False}, SOURCE, {"DescribeAcls"}),
            ({"sync_topic_acls": False}, TARGET, {"DescribeAcls", "CreateAcls"}),
            ({"sync_topic_configs": False}, TARGET, {"DescribeConfigs", "IncrementalAlterConfigs"}),
            ({"refresh_topics": False}, TARGET, {"CreatePartitions"}),
            ({"emit_checkpoints": False}, SOURCE, {"OffsetFetch", "FindCoordinator", "ListGroups"}),
            ({"emit_offset_syncs": False}, SOURCE, {"Produce", "InitProducerId", "CreateTopics"}),
        ],
    )
    def test_what_is_switched_off_needs_no_request(
        self, flow: FlowSettings, changes: dict[str, Any], side: str, without: set[str]
    ) -> None:
        """A note about it would send a person after a right that nothing needs."""
        on = replace(flow, sync_topic_acls=True, reverse_heartbeats=None)
        assert without == names(on, side) - names(replace(on, **changes), side)


@pytest.fixture
def ask(flow: FlowSettings, source: Any, monkeypatch: pytest.MonkeyPatch):
    """`ask(hidden)` asks a source that offers everything but these api keys."""
    source.add_topic("orders")
    wanted = replace(flow, sync_topic_acls=True)

    def run(*hidden: int) -> list[RefusedUse]:
        @contextmanager
        def brokers(_: object):
            offers = SimpleNamespace(offers=lambda key: -1 if key in hidden else 1)
            yield SimpleNamespace(any_broker=lambda: offers)

        monkeypatch.setattr(asking, "Brokers", brokers)
        return list(refused_requests(wanted, source, flow.source.connection, SOURCE, SAMPLE))

    return run


class TestAsking:
    def test_a_cluster_that_answers_everything_is_silent(self, ask) -> None:
        """A line is a request that was refused just now."""
        assert [] == ask()

    def test_a_request_that_is_not_offered_is_not_sent(self, ask) -> None:
        """It would only end the connection."""
        (found,) = ask(35)
        assert (
            "A refuses DescribeLogDirs, which is needed to assign lanes by the bytes of logs; without it"
            " lanes are assigned by offsets: its brokers do not offer it" == found.told("A")
        )

    @pytest.mark.parametrize(
        ("verb", "item", "name"),
        [
            ("log_dirs", "A", "DescribeLogDirs"),
            ("topic_configs", "orders", "DescribeConfigs"),
            ("committed_offsets", "billing", "OffsetFetch"),
            ("epoch_ends", "A", "OffsetForLeaderEpoch"),
        ],
    )
    def test_a_request_that_is_denied_is_told_with_the_reason(
        self, ask, source: Any, verb: str, item: str, name: str
    ) -> None:
        """Managed clusters refuse requests whatever the rights say."""
        source.refuse(verb, item, ClusterRefused("A says no"))
        (found,) = ask()
        assert name == found.use.name
        assert found.why

    def test_without_a_topic_or_a_group_nothing_is_asked_about_one(self, source: Any) -> None:
        """A made-up name would be refused for not being there."""
        for key in (9, 23, 32):
            QUESTIONS[key](source, Sample())
        assert TopicPartition("", 0) not in source.items_asked


@pytest.mark.parametrize(
    ("cost", "stops"), [(Cost.NOTHING, True), (Cost.NEW_TOPICS, True), (Cost.ACLS, False)]
)
def test_a_cycle_that_copies_less_than_it_should_has_failed(cost: Cost, stops: bool) -> None:
    """A request that the copy does without costs a line."""
    assert stops == cost.stops

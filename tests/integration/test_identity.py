"""Who is who, on real brokers: one cluster by two names, flows both ways under aliases of their own, another source."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from lab import (
    Seen,
    ThreadRunner,
    configure,
    create_topic,
    cycle,
    produce,
    produce_transaction,
    read,
    wait_until,
)
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import claim as claiming
from twinlog.copying.ownership import Ownership
from twinlog.errors import FencedError, TwinlogError
from twinlog.follow import follow
from twinlog.formats.ledger.records import CycleReport
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.fence import Grant, write_fenced
from twinlog.lifecycle import rebuild, sync_topics
from twinlog.protocol.brokers import Brokers
from twinlog.state.ledger import read_ledger

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class Names:
    """Flows under aliases that no other test uses; each letter with the suffix is an alias."""

    def __init__(self, folder: Path, topic: str) -> None:
        self.suffix = uuid.uuid4().hex[:5]
        self.topic = topic
        self._folder = folder

    def flow(self, name: str, source: Any, target: Any, **settings: str) -> FlowSettings:
        """The flow `name` (aliases without the suffix), from a file of its own."""
        here, there = (f"{alias}{self.suffix}" for alias in name.split("->"))
        full = f"{here}->{there}"
        settings = {
            "topics": self.topic,
            "heartbeats__replication__enabled": "false",
            "twinlog__follow__seconds": "4",
        } | settings
        return load(configure(self._folder, {here: source, there: target}, [full], **settings)).flows[full]


@pytest.fixture
def names(tmp_path: Path, request: pytest.FixtureRequest) -> Names:
    return Names(tmp_path, f"who-{request.node.name[5:35].strip('[]')}-{time.monotonic_ns() % 10**6}")


def records(*values: str) -> list[Seen]:
    return [Seen(None, value.encode(), 1_700_000_000_000 + n) for n, value in enumerate(values)]


def values(cluster: Any, topic: str) -> list[str]:
    return [seen.value.decode() for seen in read(cluster, topic)]


def take(flow: FlowSettings) -> Grant:
    """Fence a flow as the driver of its copy does, whatever a discovery before it would say."""
    with open_clusters(flow) as clusters:
        return Ownership.of(flow, clusters, uuid.uuid4().hex, flow.copy.lanes or 2).take()


def code_of(do: Callable[[], object]) -> str:
    with pytest.raises(TwinlogError) as caught:
        do()
    return caught.value.code


def claim(flow: FlowSettings) -> claiming.ClaimResult:
    with open_clusters(flow) as clusters:
        return claiming.run(flow, clusters, by="test", reason="a drill")


class TestOneTargetByTwoNames:
    @pytest.fixture
    def both(self, names: Names, cluster_a: Any, cluster_b: Any) -> Any:
        create_topic(cluster_a, names.topic)
        produce(cluster_a, names.topic, records("one", "two"))
        return [names.flow(f"A->{alias}", cluster_a, cluster_b) for alias in ("B", "west")]

    def test_the_second_name_copies_nothing(self, both: Any, names: Names, cluster_b: Any) -> None:
        """Refused before the fence by what is discovered, and behind it by the ledger; the first goes on."""
        first, second = both
        assert 2 == cycle(first).records
        assert "another-name" == code_of(lambda: cycle(second))
        assert "another-name" == code_of(lambda: take(second))
        assert 0 == cycle(first).records
        assert ["one", "two"] == values(cluster_b, f"A{names.suffix}.{names.topic}")

    def test_of_two_that_begin_at_once_one_has_the_flow(self, both: Any) -> None:
        """Both see a ledger that nobody has claimed; the log decides, once and for good."""
        for flow in both:
            with open_clusters(flow) as clusters:
                sync_topics.run(flow, clusters)
        barrier = threading.Barrier(2)

        def go(flow: FlowSettings) -> str:
            barrier.wait()
            try:
                take(flow)
            except TwinlogError as error:
                return error.code
            return ""

        with ThreadPoolExecutor(2) as pool:
            ended = [*pool.map(go, both)]
        assert 1 == ended.count(""), ended
        winner, loser = both if ended[0] == "" else reversed(both)
        take(winner)
        assert "another-name" == code_of(lambda: take(loser))


def test_the_command_line_refuses_a_second_name_before_and_after_the_first_copy(
    names: Names, cluster_a: Any, cluster_b: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one file before anything was copied, in two by what the ledger says; a claim names both."""

    def answer(*words: str) -> tuple[int, Any]:
        code = main([*words, "--output", "json"])
        return code, json.loads(capsys.readouterr().out)

    create_topic(cluster_a, names.topic)
    produce(cluster_a, names.topic, records("one"))
    a, b, west = (f"{alias}{names.suffix}" for alias in ("A", "B", "west"))
    settings = {"topics": names.topic, "heartbeats__replication__enabled": "false"}
    both = {a: cluster_a, b: cluster_b, west: cluster_b}
    one_file = configure(tmp_path, both, [f"{a}->{b}", f"{a}->{west}"], **settings)
    second = configure(tmp_path, {a: cluster_a, west: cluster_b}, [f"{a}->{west}"], **settings)
    for command in ("check", "plan"):
        _, report = answer(command, "--config", str(one_file))
        assert ["", "another-name"] == [(it["error"] or {"code": ""})["code"] for it in report["flows"]]
    cycle(load(one_file).flows[f"{a}->{b}"])
    for command in ("check", "plan", "status"):
        code, report = answer(command, "--config", str(second))
        assert code
        assert "another-name" == report["flows"][0]["error"]["code"], command
    code, claimed = answer("migrate", "claim", "--config", str(second), "--reason", "B is west now")
    assert (0, f"{a}->{b}", f"{a}->{west}") == (code, claimed["before"]["flow"], claimed["claim"]["flow"])
    assert 0 == answer("check", "--config", str(second))[0]


def test_a_renamed_target_is_claimed_and_goes_on_where_it_was(
    names: Names, cluster_a: Any, cluster_b: Any
) -> None:
    """Whoever copied under the old name is fenced, and does not come back; nothing is copied twice."""
    create_topic(cluster_a, names.topic)
    produce(cluster_a, names.topic, records("one", "two"))
    old, new = (names.flow(f"A->{alias}", cluster_a, cluster_b) for alias in ("B", "west"))
    cycle(old)
    held = take(old)
    done = claim(new)
    assert (True, old.name, new.name) == (done.changed, done.before and done.before.flow, done.claim.flow)
    report = CycleReport("late", {}, 1)
    with Brokers(old.target.connection) as target, pytest.raises(FencedError):
        write_fenced(target, held.lanes[0], [StateRecord(old.ledger_topic, 0, report.key(), report.value())])
    produce(cluster_a, names.topic, records("three"))
    assert "another-name" == code_of(lambda: take(old))
    assert 1 == cycle(new).records
    assert ["one", "two", "three"] == values(cluster_b, f"A{names.suffix}.{names.topic}")
    assert not claim(new).changed


def test_another_source_under_the_same_alias_stops_the_flow_until_somebody_says_it_is_meant(
    names: Names, cluster_a: Any, cluster_b: Any, cluster_c: Any
) -> None:
    """Not only topics that are known: one that only the other cluster has would be copied without a word."""
    create_topic(cluster_a, names.topic)
    produce(cluster_a, names.topic, records("one"))
    before = names.flow("A->B", cluster_a, cluster_b)
    after = names.flow("A->B", cluster_c, cluster_b, topics=f"{names.topic},{names.topic}-new")
    cycle(before)
    for name in (names.topic, f"{names.topic}-new"):
        create_topic(cluster_c, name)
        produce(cluster_c, name, records("theirs"))
    assert "source-changed" == code_of(lambda: cycle(after))
    assert "source-changed" == code_of(lambda: take(after))
    assert 0 == cycle(before).records
    assert (names.topic,) == claim(after).others
    assert 1 == cycle(after).records
    with open_clusters(after) as clusters:
        rebuild.run(after, clusters, names.topic, by="test", reason="meant", request="")
    cycle(after)
    assert ["theirs"] == values(cluster_b, f"A{names.suffix}.{names.topic}")
    assert "source-changed" == code_of(lambda: cycle(before))


class TestBothWaysUnderOtherAliases:
    @pytest.fixture
    def both(self, names: Names, cluster_a: Any, cluster_b: Any) -> tuple[FlowSettings, FlowSettings]:
        """A->B, and the other way `west->east`, deployed by somebody else: B is his west, A his east."""
        for cluster in (cluster_a, cluster_b):
            create_topic(cluster, names.topic)
        settings = {"replication__policy__class": IDENTITY}
        return (
            names.flow("A->B", cluster_a, cluster_b, **settings),
            names.flow("west->east", cluster_b, cluster_a, **settings),
        )

    def test_records_do_not_go_round(self, both: Any, names: Names, cluster_a: Any, cluster_b: Any) -> None:
        """Each record is once on each side, whichever flow began first."""
        there, back = both
        for turn in range(3):
            produce(cluster_a, names.topic, records(f"a{turn}"))
            produce_transaction(cluster_b, names.topic, records(f"b{turn}"))
            cycle(there)
            cycle(back)
        assert [0, 0] == [cycle(there).records, cycle(back).records]
        expected = Counter(f"{side}{turn}" for side in "ab" for turn in range(3))
        assert [expected] * 2 == [Counter(values(it, names.topic)) for it in (cluster_a, cluster_b)]

    def test_a_reverse_flow_that_begins_while_lanes_are_open_is_known_by_its_first_batch(
        self, both: Any, names: Names, cluster_a: Any, cluster_b: Any
    ) -> None:
        """The lane finds its ledger then; the driver looked for it before it was there."""
        there, back = both
        produce(cluster_a, names.topic, records("a"))
        produce(cluster_b, names.topic, records("b"))

        def follow_there() -> None:
            with open_clusters(there) as clusters:
                follow.run(there, clusters, ThreadRunner(1), run_id=uuid.uuid4().hex, seconds=12)

        following = threading.Thread(target=follow_there)
        following.start()
        time.sleep(5)
        cycle(back)
        following.join()
        assert 0 == cycle(there).records
        assert [Counter("ab")] * 2 == [Counter(values(it, names.topic)) for it in (cluster_a, cluster_b)]

    def test_the_copy_that_holds_the_other_sides_records_is_not_rebuilt(
        self, both: Any, names: Names, cluster_a: Any, cluster_b: Any
    ) -> None:
        """It is found whose they are, though no name says so."""
        there, back = both
        produce(cluster_a, names.topic, records("a"))
        produce(cluster_b, names.topic, records("b"))
        cycle(there)
        cycle(back)
        with open_clusters(there) as clusters:
            refused = code_of(
                lambda: rebuild.run(there, clusters, names.topic, by="test", reason="drill", request="")
            )
        assert "rebuild-refused" == refused

    def test_without_its_ledger_nothing_goes_back_until_somebody_says_so(
        self, both: Any, names: Names, cluster_a: Any, cluster_b: Any
    ) -> None:
        """Deleted with the other direction, what that one wrote would be new records."""
        there, back = both
        produce(cluster_b, names.topic, records("b1", "b2"))
        cycle(back)
        cycle(there)
        produce(cluster_b, names.topic, records("b3"))
        cycle(back)
        admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
        for done in admin.delete_topics([back.ledger_topic, back.offset_map_topic]).values():
            done.result()
        wait_until(
            lambda: not {back.ledger_topic, back.offset_map_topic} & set(admin.list_topics(timeout=10).topics)
        )
        stopped = cycle(there)
        assert {"reverse-flow-gone"} == {it.code for it in stopped.stopped}
        assert ["b1", "b2", "b3"] == values(cluster_b, names.topic)
        with open_clusters(there) as clusters:
            refused = code_of(
                lambda: rebuild.run(there, clusters, names.topic, by="test", reason="drill", request="")
            )
            assert 1 == len(read_ledger(there, clusters.target).reverse_flows)
        assert "rebuild-refused" == refused
        assert (back.ledger_topic,) == claim(there).forgotten
        assert () == cycle(there).stopped

"""Who changes a flow's state at once, beside its lanes and behind its fence, loses nothing, on real brokers.

Cost: about 10 s.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from lab import configure, create_topic, cycle
from twinlog.cluster.api import open_clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.topics import TopicPause
from twinlog.lane.copy.state_records import StateRecord
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, read_behind_fence, read_ledger
from twinlog.topics.pauses import pause

PAUSED = FlowState(FlowPhase.PAUSED, 1, "eve", "load")


@pytest.fixture
def flow(cluster_a, cluster_b, tmp_path, unique_topic) -> FlowSettings:
    """A flow that has run once, with a ledger of its own."""
    topic = create_topic(cluster_a, unique_topic("turns"))
    aliases = {f"A{topic[-6:]}": cluster_a, f"B{topic[-6:]}": cluster_b}
    name = "->".join(aliases)
    made = load(configure(tmp_path, aliases, [name], topics=topic)).flows[name]
    cycle(made)
    return made


def counted(ledger: Ledger, name: str = "counter") -> TopicPause:
    """Return the counter one higher, as a pause's time; by somebody else each time."""
    before = ledger.pauses.get(name)
    return TopicPause(name, 1 if before is None else before.since_ms + 1, uuid.uuid4().hex, "counts")


def beside(flow: FlowSettings, times: int) -> int:
    """Count in turns."""
    with open_clusters(flow) as clusters:
        for _ in range(times):
            while True:
                try:
                    change(flow, clusters.target, lambda ledger: Entries([counted(ledger)]))
                    break
                except TransientError:
                    continue
    return times


def behind(flow: FlowSettings, times: int) -> int:
    """Count behind the fence, again after a while if somebody came between."""
    with open_clusters(flow) as clusters:
        for _ in range(times):
            while True:
                try:
                    owned = Ownership.taken(flow, clusters, "counter")
                    note = counted(read_behind_fence(flow, clusters.target))
                    owned.write([StateRecord.of_ledger(flow.ledger_topic, note)])
                    break
                except TransientError:  # two that fence each other at once would do so for ever
                    time.sleep(random.random())
    return times


def test_every_change_of_six_writers_counts(flow):
    """Four in turns, two behind the fence, each adding to what it read: no addition is lost."""
    with ThreadPoolExecutor(6) as pool:
        made = [pool.submit(beside, flow, 15) for _ in range(4)]
        made += [pool.submit(behind, flow, 8) for _ in range(2)]
        due = sum(it.result(timeout=240) for it in made)
    with open_clusters(flow) as clusters:
        assert due == read_ledger(flow, clusters.target).pauses["counter"].since_ms


def promotion(flow: FlowSettings) -> list[StateRecord]:
    return [StateRecord.of_ledger(flow.ledger_topic, FlowState(FlowPhase.PROMOTED, 1, "jo", "disaster"))]


class TestBesidePromotion:
    def test_a_pause_before_it_lets_it_decide_again(self, flow):
        """The promotion read that the flow was active: nothing of it is written."""
        with open_clusters(flow) as clusters:
            owned = Ownership.taken(flow, clusters, "failover")
            pause(flow, clusters.target, by="eve", reason="load")
            with pytest.raises(TransientError) as caught:
                owned.write(promotion(flow))
            assert ("overtaken", FlowPhase.PAUSED) == (
                caught.value.code,
                read_ledger(flow, clusters.target).phase,
            )

    def test_a_turn_begun_before_it_writes_nothing(self, flow):
        """What it read is not so any more."""
        with open_clusters(flow) as clusters:
            turn = clusters.target.turn(flow.name, flow.ledger_topic, 10_000)
            Ownership.taken(flow, clusters, "failover").write(promotion(flow))
            with pytest.raises(FencedError):
                turn.write({flow.ledger_topic: [InternalRecord(PAUSED.key(), PAUSED.value())]})
            assert FlowPhase.PROMOTED is read_ledger(flow, clusters.target).phase

    def test_a_pause_begun_while_it_commits_waits_for_it(self, flow):
        """The promotion's records are in the log, and open: the pause is decided behind their end, and refused."""
        failed: list[Any] = []
        held = threading.Event()

        def late() -> None:
            with open_clusters(flow) as clusters:
                try:
                    pause(flow, clusters.target, by="eve", reason="load")
                except TerminalError as error:
                    failed.append((error.code, held.is_set()))

        eve = threading.Thread(target=late)
        with open_clusters(flow) as clusters:
            owned = Ownership.taken(flow, clusters, "failover")
            assert owned.alone is not None
            require = owned.alone.require

            def slowly(target: Any) -> None:
                require(target)
                eve.start()
                eve.join(3)
                held.set()

            owned.alone = SimpleNamespace(require=slowly)  # type: ignore[assignment]
            owned.write(promotion(flow))
            eve.join(30)
            assert [("phase", True)] == failed
            assert FlowPhase.PROMOTED is read_ledger(flow, clusters.target).phase


def test_a_turn_stops_no_copy(flow):
    """Who holds the fence to copy writes on behind somebody's pause of a topic."""
    with open_clusters(flow) as clusters:
        owned = Ownership.of(flow, clusters, "cycle", 1)
        owned.take()
        pause(flow, clusters.target, topics=["other"], by="jo", reason="load")
        owned.write([StateRecord.of_ledger(flow.ledger_topic, TopicPause("mine", 1, "cycle", "writes on"))])
        assert {"mine", "other"} == set(read_ledger(flow, clusters.target).pauses)

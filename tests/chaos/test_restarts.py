"""Both clusters of a followed flow restart, as at an upgrade: the run goes on by itself and ends well."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from wired import Wired

from lab import Seen, ThreadRunner, create_topic, flow_of, produce, read, wait_until
from twinlog.cluster.api import open_clusters
from twinlog.follow import follow
from twinlog.follow.report import LaneGeneration

pytestmark = [pytest.mark.chaos, pytest.mark.integration, pytest.mark.long]

PATIENT = 150.0


def test_a_failure_that_a_later_generation_made_good_is_not_the_result(
    wired: tuple[Wired, Wired], unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Generations fail while the brokers are away; what is written afterwards is copied, and the run is done."""
    source, target = (it.cluster for it in wired)
    topic = create_topic(source, unique_topic("restarts"))
    flow = flow_of(tmp_path, source, target, [topic], alias="restarted", twinlog__follow__seconds="5")
    before, after = ([Seen(None, b"%d" % n, 1_700_000_000_000) for n in range(at, at + 10)] for at in (0, 10))
    produce(source, topic, before)
    stop, generations = threading.Event(), list[LaneGeneration]()

    def copied(records: list[Seen]) -> bool:
        try:
            return records == read(target, f"restarted.{topic}")
        except AssertionError:  # there is no copy yet
            return False

    def failed() -> bool:
        return any(it.failure is not None for it in generations)

    with ThreadPoolExecutor(1) as pool, open_clusters(flow) as clusters:
        followed = pool.submit(
            follow.run,
            flow,
            clusters,
            ThreadRunner(),
            run_id=uuid.uuid4().hex,
            seconds=600,
            stop=stop,
            on_generation=generations.append,
        )
        try:
            wait_until(lambda: copied(before), PATIENT)
            for cluster in (source, target):
                cluster.kill()
            wait_until(failed, PATIENT)
            for cluster in (source, target):
                cluster.start()
            produce(source, topic, after)
            wait_until(lambda: copied([*before, *after]), PATIENT)
            wait_until(lambda: generations[-1].failure is None, PATIENT)  # by it the run would end well
        finally:
            for cluster in (source, target):
                cluster.start()
            stop.set()
            result = followed.result(PATIENT)
    assert ("done", 20, "") == (result.state, result.records, result.error)

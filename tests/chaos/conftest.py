"""Clusters to be hurt: their own, because the session's are shared; and the count of what was played."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from report import PLAYED, summary
from stage import Stage
from wired import QUICK, Wired, wired_broker


@pytest.fixture(scope="session")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Wired, Wired]]:
    """A source and a target of one broker each, both behind proxies."""
    pairs = [
        wired_broker(f"wired-{name}", tmp_path_factory.mktemp(f"wired-{name}") / "kafka") for name in "AB"
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda pair: pair.cluster.start(), pairs))
    yield pairs[0], pairs[1]
    for pair in pairs:
        pair.cluster.stop()
        pair.proxy.close()


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A target of three brokers: leaders and coordinators have somewhere to go."""
    from twinlog.lab.kafka.broker import EmbeddedKafka

    folder = tmp_path_factory.mktemp("three") / "kafka"
    by_rack = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    with EmbeddedKafka("three", folder, nodes=3, settings=QUICK | by_rack) as cluster:
        yield cluster


@pytest.fixture
def stage(
    wired: tuple[Wired, Wired], unique_topic: Callable[[str], str], tmp_path: Path
) -> Callable[..., Stage]:
    """`stage(seed)` sets a flow between the wired clusters, through their proxies."""

    def setting(seed: int, **options: Any) -> Stage:
        source, target = wired
        addresses = {"A": source.address, "B": target.address}
        return Stage(
            tmp_path, source.cluster, target.cluster, unique_topic("chaos"), seed, addresses, **options
        )

    return setting


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if PLAYED:
        failed = [test for test in terminalreporter.stats.get("failed", []) if "tests/chaos/" in test.nodeid]
        terminalreporter.write_line(summary(len(failed)))

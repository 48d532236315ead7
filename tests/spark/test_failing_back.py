"""The way home as a Spark application, on real brokers.  Cost: about a minute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_failback import BothWays, write
from test_failover import PARTITIONS

from lab import commit_group, read_partitions
from twinlog.cluster.api import open_clusters
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import FAILBACK
from twinlog.procedure import StepName
from twinlog.recovery.procedures import names_of
from twinlog.recovery.report import FailbackReport
from twinlog.spark import application
from twinlog.spark.request import FailbackRequest
from twinlog.state.ledger import read_ledger

pytestmark = [pytest.mark.spark, pytest.mark.integration]


@pytest.mark.long
def test_an_approved_way_home_is_gone_once_and_told_by_every_try(
    cluster_a, cluster_b, tmp_path: Path
) -> None:
    """What clients wrote on B is copied home on Spark; a second try of the same Dag run tells of the same end."""
    world = BothWays(tmp_path, cluster_a, cluster_b)
    write(cluster_a, world.topic, range(30))
    for partition in range(PARTITIONS):
        commit_group(cluster_a, world.group, world.topic, 10, partition)
    for flow in (world.there, world.back):
        world.cycle(flow)
    world.fail_over()
    with open_clusters(world.there) as clusters:
        failover = read_ledger(world.there, clusters.target).present_recovery
    assert failover is not None
    write(cluster_b, world.topic, range(1000, 1020))
    request = FailbackRequest(
        config=world.file,
        flow=world.there.name,
        by="ann",
        failover=failover.run,
        driver="failback/monday",
    )
    names = names_of(FAILBACK)
    before = tuple(names[: names.index(StepName.APPROVE) + 1])
    asked = application.run(replace(request, only=before), master="local[2]")
    assert isinstance(asked, FailbackReport)
    request = replace(request, cost=asked.cost)
    first, again = (application.run(request, master="local[2]") for _ in range(2))
    assert isinstance(first, FailbackReport)
    assert isinstance(again, FailbackReport)
    assert ("following", "ann", 0) == (first.state.value, first.by, first.exit_code), first.steps
    assert (first.run, first.evidence, "following") == (again.run, again.evidence, again.state.value)
    assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == world.phases()
    every = [*range(30), *range(1000, 1020)]
    for cluster in (cluster_a, cluster_b):
        rows = read_partitions(cluster, world.topic, range(PARTITIONS)).values()
        assert every == sorted(int(it.value) for part in rows for _, it in part)

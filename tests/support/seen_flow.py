"""A flow as the pages in Airflow have read it: small, and with thousands of partitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twinlog.airflow.plugin.reading import Details, SeenFlow
from twinlog.audit.coverage import PartitionCoverage, UnprovedCount
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.formats.ledger.gate import RiskSample
from twinlog.formats.ledger.records import CycleReport, FlowPhase
from twinlog.monitoring.readiness import Readiness
from twinlog.monitoring.status import FlowStatus, PartitionStatus, TopicStatus
from twinlog.state.ledger import Ledger

NOW = 1_800_000_000.0


def cluster(alias: str) -> ClusterSettings:
    """Return settings of a cluster that nobody asks."""
    return ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),)))


FLOW = FlowSettings(cluster("A"), cluster("B"))
ORDERS = TopicStatus(
    "orders", "A.orders", 40, 2.6, (PartitionStatus(0, 959, 1000, 40),), rpo_budget_seconds=60
)
STATUS = FlowStatus(
    flow="A->B",
    state=FlowPhase.ACTIVE,
    source_reachable=True,
    as_of="2027-01-15T08:00:00+00:00",
    rpo_seconds=2.6,
    lag_records=40,
    topics=(ORDERS,),
    gaps=(),
    incarnations=(),
    problems=(),
    cycle_age_seconds=42.0,
    readiness=(Readiness("planned", True, 180.0), Readiness("source-dead")),
)
LAST = CycleReport(
    "scheduled__1",
    {"state": "done", "records": 1234, "bytes": 5_600_000, "seconds": 23.4},
    round((NOW - 42) * 1000),
)
LEDGER = Ledger(last_report=LAST)


def seen_flow(status: FlowStatus | None = STATUS, ledger: Ledger | None = LEDGER, **more: Any) -> SeenFlow:
    """Return a flow that was read just now."""
    return SeenFlow("replicate__A__B", FLOW, **{"at": NOW, "status": status, "ledger": ledger, **more})


def large_flow(topics: int, partitions: int) -> SeenFlow:
    """Return a flow of many topics, half of each proved equal, with a day of samples."""
    names = [f"topic-{number:05d}" for number in range(topics)]
    status = replace(
        STATUS,
        rpo_seconds=0.0,
        lag_records=0,
        topics=tuple(
            TopicStatus(
                name,
                f"A.{name}",
                0,
                0.0,
                tuple(PartitionStatus(it, 999, 1000, 0) for it in range(partitions)),
                rpo_budget_seconds=60,
            )
            for name in names
        ),
    )
    half = (UnprovedCount("not-audited", 500),)
    coverage = tuple(
        PartitionCoverage(name, it, 1000, 500, 0, round(NOW * 1000), half)
        for name in names
        for it in range(partitions)
    )
    now_ms = round(NOW * 1000)
    samples = tuple(
        RiskSample(it, now_ms - it * 300_000, it, None, it * 100, copied=1000) for it in range(288)
    )
    return seen_flow(
        status, Ledger(last_report=LAST, risk_samples=samples), details=Details(NOW, coverage=coverage)
    )

"""A cycle by `twinlog run --once` does more than its copy: drills are told of once."""

from __future__ import annotations

import time
from dataclasses import replace

from twinlog.cli.replication.cycle import Request, run_cycle
from twinlog.config.file.providers import Secret
from twinlog.config.flow.values import NEVER
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import publish
from twinlog.state.ledger import write_ledger


def test_a_drill_that_failed_is_told_once(flow, clusters, target, orders, copied, monkeypatch):
    """However many cycles follow, each in a process of its own: the cycle's report says what was told before."""
    sent: list[str] = []
    monkeypatch.setattr("twinlog.monitoring.alarm.send", lambda url, name, text, run: sent.append(text) or "")
    copied(orders, 0, 5)
    sync_topics.run(flow, clusters)
    publish.run(flow, clusters, "run-1", None, _now())
    told = replace(
        flow,
        audit=replace(flow.audit, schedule=NEVER),
        gate=replace(flow.gate, alert_url=Secret("http://alarm")),
    )
    now = _now()
    write_ledger(flow, target, [DrillRun("drill-1", DrillState.FAILED, "jo", now, now, message="no record")])
    for number in (2, 3):
        run_cycle(told, clusters, Request(f"run-{number}"), lambda: None, lambda _: None)
    assert ["drill drill-1 failed: no record"] == sent


def _now() -> int:
    return time.time_ns() // 10**6

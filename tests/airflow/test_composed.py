"""docker-compose.yaml, lived in without containers: a cycle, a database that restarts, an audit, a drill, a failover.

Costs six minutes and most of two cores, so it runs on its day.  Grafana is not started: Debian has none.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from composed import PROGRAMS, Topology, composed, found

from lab import Seen, commit_group, committed, create_topic, produce, read_with_offsets
from twinlog.errors import ClusterUnreachable

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.spark, pytest.mark.long]

NEEDED = ("initdb", "postgres", *PROGRAMS.values())
MISSING = [program for program in NEEDED if not found(program)]
SETTINGS = ("twinlog.gate.free.disk.percent = 0", "twinlog.gate.fence.seconds = 1")
"""The disk is this machine's; nobody writes who could notice a fence."""

REPLICATE, AUDIT, DRILL, FAILOVER = (f"{it}__A__B" for it in ("replicate", "audit", "drill", "failover"))


@pytest.fixture(scope="module")
def running() -> Iterator[Topology]:
    """The services; not below pytest's own folder, which PostgreSQL's user may not enter."""
    folder = Path(tempfile.mkdtemp(prefix="twinlog-topology-"))
    folder.chmod(0o755)
    try:
        with composed(folder, SETTINGS) as topology:
            yield topology
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def records(first: int, count: int) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(b"k", b"%d" % n, now) for n in range(first, first + count)]


def prometheus(running: Topology, query: str) -> list[dict[str, Any]]:
    """Ask Prometheus; [] while it knows nothing."""
    port = running.port("prometheus", "9090")
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        return list(json.load(answer)["data"]["result"])


@pytest.mark.timeout(1800)
@pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)} (Debian has them)")
def test_a_week_in_ten_minutes(running: Topology, watching) -> None:
    """Every record is on B once although PostgreSQL restarted in the middle; B is proved equal, drilled, promoted."""
    platform = watching(running)
    source, target = running.brokers["kafka-a"], running.brokers["kafka-b"]
    topic, group = create_topic(source, "orders"), "shop"
    produce(source, topic, records(0, 500))
    platform.wait("Dags", lambda: {REPLICATE, AUDIT, DRILL, FAILOVER} <= running.api.dag_ids())
    assert [] == running.api.import_errors()

    first = platform.unpause(REPLICATE)
    assert {"success"} == set(platform.finish(REPLICATE, first).values())
    assert 500 == len(read_with_offsets(target, f"A.{topic}"))

    produce(source, topic, records(500, 500))
    commit_group(source, group, topic, 900)
    second = running.api.trigger(REPLICATE)
    platform.wait("the copy", lambda: _state(running, second, "copy") in {"running", "success"})
    running.restart_postgres()
    with suppress(ClusterUnreachable):
        running.wait_healthy("airflow-api-server")
    assert {"success"} == set(platform.finish(REPLICATE, second).values())
    copy = read_with_offsets(target, f"A.{topic}")
    assert [b"%d" % n for n in range(1000)] == [seen.value for _, seen in copy]

    running.api.pause(REPLICATE, paused=True)
    running.api.pause(AUDIT, paused=False)
    audited = running.api.trigger(AUDIT)
    assert "success" == platform.finish(AUDIT, audited)["compare"]
    running.api.pause(DRILL, paused=False)
    drilled = running.api.trigger(DRILL, groups=group)
    assert {"drill": "success"} == platform.finish(DRILL, drilled)
    assert "passed" == running.api.result(DRILL, drilled, "drill")["state"]

    running.api.pause(FAILOVER, paused=False)
    asked = running.api.trigger(FAILOVER)
    platform.answer(FAILOVER, asked, "Approve")
    states = platform.finish(FAILOVER, asked)
    assert dict.fromkeys(("preview", "approve", "failover", "report"), "success") == states
    assert copy[900][0] == committed(target, group, f"A.{topic}")

    (seen,) = platform.wait("the numbers", lambda: prometheus(running, 'twinlog_flow_active{flow="A->B"}'))
    assert "A->B" == seen["metric"]["flow"]


def _state(running: Topology, run_id: str, task: str) -> str | None:
    return next(it["state"] for it in running.api.tasks(REPLICATE, run_id) if it["task_id"] == task)

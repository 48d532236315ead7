"""A whole cycle in one task, between real brokers; its lanes are threads, because the test is not about Spark."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab import Seen, ThreadRunner, commit_group, configure, create_topic, produce, read_with_offsets
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import copy
from twinlog.errors import FencedError, UsageError
from twinlog.jsonable import Json, to_json
from twinlog.state.ledger import read_ledger
from twinlog.topics import pauses

pytestmark = [pytest.mark.airflow, pytest.mark.integration]


@pytest.fixture
def topic(cluster_a, cluster_b, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic with 50 records, of which `readers` have read 20, in a flow of its own."""
    from twinlog.airflow.flows import CONFIG_VARIABLE

    name = create_topic(cluster_a, f"one-task-{uuid.uuid4().hex[:6]}")
    now = int(time.time() * 1000)
    produce(cluster_a, name, [Seen(b"k", b"%d" % n, now) for n in range(50)])
    commit_group(cluster_a, f"readers-{name}", name, 20)
    settings = {
        "topics": name,
        "groups": f"readers-{name}",
        "sync__group__offsets__enabled": "true",
        "heartbeats__replication__enabled": "false",
        "twinlog__reports__folder": str(tmp_path / "reports"),
    }
    alias = f"one{uuid.uuid4().hex[:6]}"
    file = configure(tmp_path, {alias: cluster_a, "B": cluster_b}, [f"{alias}->B"], **settings)
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    return name


def flow_here() -> FlowSettings:
    from twinlog.airflow.flows import read_configuration

    (flow,) = read_configuration().enabled_flows
    return flow


def run(try_number: int = 1, fails: Exception | None = None, **arguments: Any) -> SimpleNamespace:
    """Execute the operator; return its result or error, what it pushed, and the event of its asset."""
    from airflow.sdk.exceptions import AirflowSkipException
    from airflow.sdk.execution_time.context import OutletEventAccessors

    from twinlog.airflow.assets import remote_cluster
    from twinlog.airflow.operators import ReplicateOperator
    from twinlog.errors import TwinlogError

    class Here(ReplicateOperator):
        def run_on_spark(self, request: Any, configured: str) -> Json | None:
            if fails is not None:
                raise fails
            flow = flow_here()
            topics = frozenset(request.topics) or None
            with open_clusters(flow) as clusters:
                result = copy.run(flow, clusters, ThreadRunner(), run_id=request.run_id, topics=topics)
            return to_json(result)

    done = SimpleNamespace(result=None, error=None, pushed=None)
    names = {"dag_id": "own", "run_id": "r1", "task_id": "replicate", "map_index": -1}
    push = lambda _key, value: setattr(done, "pushed", value)  # noqa: E731
    ti = SimpleNamespace(**names, try_number=try_number, xcom_push=push)
    events = OutletEventAccessors()
    task = Here(task_id="replicate", flow=flow_here().name, **arguments)
    try:
        run_now = SimpleNamespace(run_id="r1")
        done.result = task.execute({"ti": ti, "dag_run": run_now, "outlet_events": events})
    except (TwinlogError, AirflowSkipException) as error:
        done.error = error
    done.event = events[remote_cluster("B")].extra
    return done


def values(cluster: Any, topic: str) -> list[bytes | None]:
    return [record.value for _, record in read_with_offsets(cluster, topic)]


def test_a_cycle_copies_reports_and_tells(topic, cluster_b) -> None:
    """Records, positions of groups, the report in the ledger, and the event; another one finds nothing to copy."""
    flow = flow_here()
    first = run()
    assert ("done", 50, 0, "") == tuple(
        first.result[name] for name in ("state", "records", "lag_records", "left_to")
    )
    assert (flow.name, [f"{flow.source.alias}.{topic}"]) == (first.event["flow"], first.event["topics"])
    with open_clusters(flow) as clusters:
        assert "own/replicate/r1/1" == read_ledger(flow, clusters.target).last_report.run_id
        positions = clusters.target.committed_offsets([f"readers-{topic}"]).found[f"readers-{topic}"]
    assert [20] == [it.offset for it in positions.values()]
    again = run(topics=[topic])
    assert ("nothing", 0) == (again.result["state"], again.result["records"])
    assert [b"%d" % n for n in range(50)] == values(cluster_b, f"{flow.source.alias}.{topic}")


def test_a_retry_goes_on(topic, cluster_b) -> None:
    """A try that was fenced before it copied is reported as failed; the next one copies everything once."""
    flow = flow_here()
    first = run(fails=FencedError("another driver holds the flow"))
    assert (FencedError, "failed", {}) == (type(first.error), first.pushed["state"], first.event)
    second = run(try_number=2).result
    assert ("done", 50) == (second["state"], second["records"])
    assert [b"%d" % n for n in range(50)] == values(cluster_b, f"{flow.source.alias}.{topic}")


def test_a_topic_there_is_not_is_refused(topic) -> None:
    """In one line, before anything is done."""
    found = run(topics=["no-such-topic"])
    assert isinstance(found.error, UsageError)
    assert "does not replicate topic no-such-topic" in str(found.error)
    assert str(found.error).endswith("correct `topics` of this task")


def test_a_flow_that_is_held_is_skipped(topic) -> None:
    """With who holds it, and why; tasks behind it must not take it for copied."""
    flow = flow_here()
    assert run().result is not None
    with open_clusters(flow) as clusters:
        pauses.pause(flow, clusters.target, by="jo", reason="maintenance")
    found = run()
    assert f"{flow.name} is paused by jo: maintenance: nothing is copied" == str(found.error)
    assert {} == found.event

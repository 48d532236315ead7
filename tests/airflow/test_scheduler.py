"""Cycles run by a real scheduler, between real clusters."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lab import commit_group
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.errors import TerminalError
from twinlog.lab.demo.comparison import compare_topic, read_topic
from twinlog.topics import pauses

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

BY_CONNECT, BY_SUBMIT, CONTINUOUS = (
    "replicate__east__west",
    "replicate__west__east",
    "replicate__upper__lower",
)
MID_YEAR_MS = {
    2021: 1_625_140_800_000,
    2022: 1_656_676_800_000,
    2023: 1_688_212_800_000,
    2025: 1_751_371_200_000,
}
STEPS = "discover sync_topics plan_ranges copy offset_syncs checkpoints heartbeats validate publish"
ALL_WELL = dict.fromkeys(STEPS.split(), "success")


@pytest.fixture
def write() -> Callable[..., None]:
    """`write(cluster, topic, count, timestamp)` creates the topic if need be and writes records to it."""

    def produce(cluster, topic: str, count: int, timestamp: int = 0) -> None:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        if topic not in admin.list_topics(timeout=10).topics:
            # Records of long ago must outlive the test.
            [created] = admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})]).values()
            created.result(20)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(count):
            producer.produce(topic, f"{timestamp}-{number}".encode(), partition=0, timestamp=timestamp)
        assert 0 == producer.flush(20)

    return produce


@pytest.fixture(scope="module")
def submitting(scheduler) -> Iterator[str]:
    """The Dag that copies by spark-submit, unpaused, its scheduled run done."""
    run_id = scheduler.unpause(BY_SUBMIT)
    scheduler.finish(BY_SUBMIT, run_id)
    yield BY_SUBMIT


def last_offsets(report: dict) -> dict[str, int]:
    return {topic["topic"]: topic["partitions"][0]["last_upstream_offset"] for topic in report["topics"]}


def test_airflow_lists_a_dag_per_flow(scheduler) -> None:
    """`airflow dags list` shows them, and those of the ways home with MM2's names, without an import error."""
    said = scheduler.instance.command("dags", "list", "--output", "json")

    listed = json.loads(said.splitlines()[-1])  # warnings come before
    ids = {dag["dag_id"] for dag in listed}
    both = {"replicate__north__south", "replicate__south__north"}
    flows = {BY_CONNECT, BY_SUBMIT, CONTINUOUS, "replicate__left__right", "replicate__day__night", *both}
    # North and south keep names: each of them goes home by the other.
    home = {f"replicate__{it}" for it in ("right_home__left", "lower_home__upper", "west_home__east")}
    home |= {"replicate__east_home__west", "replicate__night_home__day"}
    assert flows | home == {dag_id for dag_id in ids if dag_id.startswith("replicate")}
    assert {"translate_group", "sync_metadata__east__west", "sync_metadata__west__east"} <= ids
    assert [] == scheduler.api.import_errors()


def test_run_by_rest_api(scheduler, submitting, cluster_a, cluster_b, unique_topic, write) -> None:
    """Triggered for one topic of two: that one is equal on both sides, and results are XComs and an asset event."""
    wanted, other = unique_topic("submitted-wanted"), unique_topic("submitted-other")
    write(cluster_b, wanted, 500)
    write(cluster_b, other, 5)
    commit_group(cluster_b, f"readers-{wanted}", wanted, 200)

    run_id = scheduler.api.trigger(submitting, topics=[wanted])

    assert ALL_WELL == scheduler.finish(submitting, run_id)
    assert compare_topic(
        cluster_b.bootstrap_servers, cluster_a.bootstrap_servers, wanted, f"west.{wanted}"
    ).equal
    assert ("done", 500) == tuple(
        scheduler.api.result(submitting, run_id, "copy")[name] for name in ("state", "records")
    )
    report = scheduler.api.result(submitting, run_id, "publish")
    assert {wanted: 499, other: -1}.items() <= last_offsets(
        report
    ).items()  # other tests have topics of the flow, too
    events = scheduler.api.get("assets/events?order_by=-timestamp&limit=100")["asset_events"]
    [extra] = [event["extra"] for event in events if event["extra"].get("run_id") == run_id]
    synced = {
        "flow": "west->east",
        "groups": [f"readers-{wanted}"],
        "groups_not_shown": 0,
        "positions": 1,
    }
    assert synced in [event["extra"] for event in events]
    assert ("west->east", 500, 5, [f"west.{wanted}"]) == tuple(
        extra[name] for name in ("flow", "records", "lag_records", "topics")
    )


@pytest.mark.long
def test_dry_run_changes_nothing(scheduler, submitting, cluster_a, cluster_b, unique_topic, write) -> None:
    """Everything that would write is skipped, and the topic has no copy."""
    topic = unique_topic("submitted-dry")
    write(cluster_b, topic, 3)

    run_id = scheduler.api.trigger(submitting, dry_run=True, topics=[topic])

    skipped = dict.fromkeys(["copy", "heartbeats", "validate", "publish"], "skipped")
    assert ALL_WELL | skipped == scheduler.finish(submitting, run_id)
    changes = scheduler.api.result(submitting, run_id, "sync_topics")["changes"]
    assert f"west.{topic}" in [change["name"] for change in changes]
    admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
    assert f"west.{topic}" not in admin.list_topics(timeout=10).topics


def test_a_key_that_the_form_does_not_have_is_refused(
    scheduler, submitting, cluster_b, unique_topic, write
) -> None:
    """Nothing is done and nothing reported: the misspelt dry run would be a run, and Airflow passes over the key."""
    topic = unique_topic("submitted-misspelt")
    write(cluster_b, topic, 3)

    run_id = scheduler.api.trigger(submitting, dryrun=True, topics=[topic])

    states = scheduler.finish(submitting, run_id)
    assert {"failed", "upstream_failed"} == set(states.values())
    path = f"dags/{submitting}/dagRuns/{run_id}/taskInstances/discover/logs/1"
    said = json.dumps(scheduler.api.get(path))
    assert "the form has no field 'dryrun': nothing is done; did you mean dry_run?" in said


def test_a_paused_flow_says_so_and_sends_no_event(
    scheduler, submitting, cluster_b, unique_topic, write
) -> None:
    """Records wait on the source, so the run is no news for other Dags, and not `nothing to copy`; it is reported."""
    topic = unique_topic("submitted-held")
    write(cluster_b, topic, 7)
    flow = load(Path(scheduler.instance.environment["TWINLOG_CONFIG"])).flows["west->east"]
    with open_clusters(flow) as clusters:
        pauses.pause(flow, clusters.target, by="jo", reason="brokers move")
        try:
            run_id = scheduler.api.trigger(submitting)
            states = scheduler.finish(submitting, run_id)
        finally:
            pauses.resume(flow, clusters.target, by="jo", reason="brokers are moved")

    assert ALL_WELL | {"copy": "skipped", "publish": "skipped"} == states
    path = f"dags/{submitting}/dagRuns/{run_id}/taskInstances/copy/logs/1"
    assert "west->east is paused by jo: brokers move: nothing is copied" in json.dumps(
        scheduler.api.get(path)
    )
    report = scheduler.api.result(submitting, run_id, "publish")
    assert ("nothing", True) == (report["state"], report["lag_records"] >= 7)
    events = scheduler.api.get("assets/events?order_by=-timestamp&limit=100")["asset_events"]
    assert [] == [event["uri"] for event in events if event["extra"].get("run_id") == run_id]


def test_form_refuses_what_is_no_time(scheduler) -> None:
    """Airflow checks params against their schema before a run exists."""
    with pytest.raises(TerminalError, match="400"):
        scheduler.api.trigger(BY_SUBMIT, until="yesterday")


@pytest.mark.long
def test_backfill_over_three_intervals(scheduler, cluster_a, cluster_b, unique_topic, write) -> None:
    """Each run copies up to the offsets at its interval's end, and no further."""
    idle = scheduler.unpause(BY_CONNECT)
    assert {"copy": "skipped"}.items() <= scheduler.finish(BY_CONNECT, idle).items()
    topic = unique_topic("yearly")
    for (_, moment), count in zip(MID_YEAR_MS.items(), (10, 20, 30, 40), strict=True):
        write(cluster_a, topic, count, moment)

    years = ("--from-date", "2021-01-01", "--to-date", "2023-01-01")
    scheduler.backfill(BY_CONNECT, *years, "--max-active-runs", "1")

    runs = [run for run in scheduler.api.runs(BY_CONNECT) if run["run_type"] == "backfill"]
    runs.sort(key=lambda run: run["data_interval_end"])
    assert [2022, 2023, 2024] == [int(run["data_interval_end"][:4]) for run in runs]
    for run in runs:
        assert ALL_WELL == scheduler.finish(BY_CONNECT, run["dag_run_id"])
    reports = [scheduler.api.result(BY_CONNECT, run["dag_run_id"], "publish") for run in runs]
    assert [(10, 9, 90), (20, 29, 70), (30, 59, 40)] == [
        (report["records"], last_offsets(report)[topic], report["lag_records"]) for report in reports
    ]
    [theirs] = read_topic(cluster_a.bootstrap_servers, topic).values()
    [ours] = read_topic(cluster_b.bootstrap_servers, f"east.{topic}").values()
    assert theirs[:60] == ours

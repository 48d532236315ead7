"""A topic copied anew by a real scheduler: the form, as REST fills it in, and what is left when the run has ended."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lab import Seen, commit_group, create_topic, cycle, produce, read_with_offsets
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.topics import RebuildPhase
from twinlog.lifecycle import rebuild
from twinlog.state.ledger import Ledger, read_ledger

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "rebuild"
RECORDS = [Seen(None, b"%d" % n, 1_700_000_000_000 + n) for n in range(20)]


@pytest.fixture(scope="module")
def flow(scheduler) -> FlowSettings:
    """west->east; nothing starts its Dags but tests."""
    return load(Path(scheduler.instance.environment["TWINLOG_CONFIG"])).flows["west->east"]


@pytest.fixture
def copied(flow: FlowSettings, cluster_a, cluster_b) -> str:
    """A topic that was copied by two cycles, its copy's offsets no longer those of the source."""
    topic = create_topic(cluster_b, f"submitted-{uuid.uuid4().hex[:6]}")
    for part in (RECORDS[:10], RECORDS[10:]):
        produce(cluster_b, topic, part)
        cycle(flow, topics=[topic])
    return topic


def seen(flow: FlowSettings, topic: str) -> tuple[Ledger, str]:
    """The ledger, and the id of the copy."""
    with open_clusters(flow) as clusters:
        remote = f"west.{topic}"
        found = clusters.target.describe_topics([remote]).require()[remote].topic_id
        return read_ledger(flow, clusters.target), found


def test_the_form_rebuilds_a_topic_and_its_groups_stay_where_they_were(
    scheduler, flow, cluster_a, cluster_b, copied
) -> None:
    """A dry run shows it and changes nothing; a confirmed one makes a fresh copy, which the next cycles fill."""
    remote, group = f"west.{copied}", f"reader-{copied}"
    (there,) = [at for at, it in read_with_offsets(cluster_a, remote) if it.value == b"14"]
    commit_group(cluster_a, group, remote, there)
    _, before = seen(flow, copied)

    run_id = scheduler.api.trigger(DAG, flow="west->east", topic=copied, dry_run=True)
    assert {"plan": "success", "do": "skipped"} == scheduler.finish(DAG, run_id)
    shown = scheduler.api.result(DAG, run_id, "plan")
    assert ([(group, 14)], 20) == (
        [(it["group"], it["upstream"]) for it in shown["groups"]],
        shown["source_records"],
    )
    assert before == seen(flow, copied)[1]

    run_id = scheduler.api.trigger(
        DAG, flow="west->east", topic=copied, confirm=copied, reason="drill", dry_run=False
    )
    assert {"plan": "success", "do": "success"} == scheduler.finish(DAG, run_id)
    done = scheduler.api.result(DAG, run_id, "do")
    assert (True, [group]) == (done["deleted"], done["waiting"])
    ledger, after = seen(flow, copied)
    kept = ledger.rebuilds[copied]
    assert ("airflow", "drill", run_id) == (kept.by, kept.reason, kept.request)
    assert before != after == ledger.incarnations[copied].remote_topic_id

    cycle(flow, topics=[copied])
    with open_clusters(flow) as clusters:
        again = rebuild.run(flow, clusters, copied, by="test", reason="", request=run_id)
        (committed,) = [
            it.offset
            for partition, it in clusters.target.committed_offsets([group]).require()[group].items()
            if partition.topic == remote
        ]
    assert (RebuildPhase.DONE, False) == (seen(flow, copied)[0].rebuilds[copied].phase, again.deleted)
    found = dict(read_with_offsets(cluster_a, remote))
    assert (RECORDS, b"14") == (list(found.values()), found[committed].value)

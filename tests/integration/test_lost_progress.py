"""Somebody deletes the topic that holds progress: nothing is copied a second time, and a rebuild is a way on.

Costs ten seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from test_lost_ends import own_flow

from lab import Seen, create_topic, cycle, produce, read
from twinlog.cluster.api import open_clusters
from twinlog.copying.mend.tails import LOST_PROGRESS
from twinlog.lifecycle import rebuild

NOW = int(time.time() * 1000)
RECORDS = [Seen(None, b"%d" % n, NOW + n) for n in range(3)]


def test_without_progress_what_has_a_map_is_not_copied_again(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A topic that was never copied begins, the other stops until somebody has it rebuilt."""
    topic = create_topic(cluster_a, unique_topic("kept"), 2)
    flow = own_flow(tmp_path, cluster_a, cluster_b, f"{topic}.*")
    copies = f"{flow.source.alias}.{topic}"
    for partition in (0, 1):
        produce(cluster_a, topic, RECORDS, partition)
    assert 6 == cycle(flow).records
    delete(flow.offsets_topic, flow)
    new = create_topic(cluster_a, f"{topic}-new")
    for place in ((topic, 0), (topic, 1), (new, 0)):
        produce(cluster_a, place[0], RECORDS, place[1])
    for copied in (3, 0):
        result = cycle(flow)
        assert ("failed", copied) == (result.state, result.records)
        assert [(n, LOST_PROGRESS) for n in (0, 1)] == [(it.partition, it.code) for it in result.stopped]
        assert f"{flow.offsets_topic} knows nothing of {topic}-0" in result.stopped[0].message
    assert 3 == len(read(cluster_b, copies, 0))
    with open_clusters(flow) as clusters:
        rebuild.run(flow, clusters, topic, by="test", reason="progress was deleted", request="")
    assert ("done", 12) == ((result := cycle(flow)).state, result.records)
    for partition in (0, 1):
        assert read(cluster_a, topic, partition) == read(cluster_b, copies, partition)


def delete(topic: str, flow: Any) -> None:
    """Delete a topic of the target, and wait until it has gone."""
    with open_clusters(flow) as clusters:
        clusters.target.delete_topics([topic]).require()
        while topic in clusters.target.topic_names():
            time.sleep(0.05)

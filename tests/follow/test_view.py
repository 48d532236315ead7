"""Whether lanes that are open would still be opened so."""

from dataclasses import replace

import pytest

from twinlog.cluster.values import PartitionOffsets
from twinlog.follow.report import Prepared
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, RemoteTopic

REMOTE = RemoteTopic("copy", 2)
TOPIC = DiscoveredTopic(
    "t",
    "id",
    "A.t",
    2,
    tuple(DiscoveredPartition("t", "id", n, PartitionOffsets(0, 5, 5), None) for n in (0, 1)),
    REMOTE,
)
DISCOVERY = Discovery("A->B", "a", "b", 1, (TOPIC,), (), ())
OPEN = Prepared(DISCOVERY, (TOPIC,), {"A.t": 1000})


def test_logs_that_grow_change_nothing() -> None:
    """Where they begin and end is the lanes' own to see."""
    grown = replace(
        TOPIC, partitions=tuple(replace(it, source=PartitionOffsets(3, 9, 9)) for it in TOPIC.partitions)
    )
    assert not replace(OPEN, topics=(grown,)).asks_for_lanes_unlike(OPEN)


@pytest.mark.parametrize(
    "now",
    [
        replace(OPEN, topics=()),
        replace(OPEN, topics=(TOPIC, replace(TOPIC, topic="u"))),
        replace(OPEN, topics=(replace(TOPIC, topic_id="another"),)),
        replace(OPEN, topics=(replace(TOPIC, remote=replace(REMOTE, topic_id="another")),)),
        replace(OPEN, topics=(replace(TOPIC, partitions=TOPIC.partitions[:1]),)),
        replace(OPEN, max_bytes={"A.t": 2000}),
        replace(OPEN, discovery=replace(DISCOVERY, stands_by="paused by jo")),
    ],
)
def test_anything_else_does(now: Prepared) -> None:
    """Topics, lives, places, limits, and a pause."""
    assert now.asks_for_lanes_unlike(OPEN)

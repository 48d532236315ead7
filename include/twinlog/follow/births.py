"""Follow topics that were born while lanes are open, with a lane of their own, without a fence.

A fence stops every lane for about a second: it ends their Spark jobs, and new ones are started.  It is needed if a
range passes from one writer to another.  The ranges of a topic that was born pass from nobody: the fence of the open
lanes has granted a lane for each slot, and one that no task has been given yet copies them.

    fence grants lanes 0, 1, 2 | lane 0 copies what was there ........................
                                      | a topic is born | lane 1 copies it ............
                                                              | two more | lane 2 ......

Only what cannot have been copied before counts as born: nothing at all is written in its copy, and it has no progress
behind the fence.  Everything else goes through a fence.  If another driver has fenced since, it has fenced the unused
lanes, too: they write nothing, and say so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from twinlog.cluster.api import Clusters
from twinlog.copying.ownership import Ownership
from twinlog.copying.resolve import resolve_now
from twinlog.follow.report import Prepared
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import RangeSpec
from twinlog.state.ledger import read_behind_fence
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.snapshot import with_offsets_now


def born_since(before: Prepared, now: Prepared) -> tuple[DiscoveredTopic, ...]:
    """Return the topics that were added, if nothing else has changed for lanes opened for `before`, else (). Pure."""
    known = {topic.topic for topic in before.topics}
    born = tuple(topic for topic in now.topics if topic.topic not in known)
    copies = {topic.remote_topic for topic in born}
    rest = Prepared(
        now.discovery,
        tuple(topic for topic in now.topics if topic.topic in known),
        {name: size for name, size in now.max_bytes.items() if name not in copies},
        now.refused,
    )
    return () if rest.asks_for_lanes_unlike(before) else born


def resolve_born(
    owned: Ownership,
    clusters: Clusters,
    topics: Sequence[DiscoveredTopic],
    max_bytes: Mapping[str, int],
    followed: Collection[TopicPartition],
) -> tuple[RangeSpec, ...]:
    """Resolve the ranges of topics that were born, while lanes of this fence copy the ranges `followed`.

    Returns () if only another fence can tell, for any of them: one was copied before, its copy is not empty, it is
    stopped or paused, or may be copied both ways (copying/loopback.py).  Raises
    TransientError, and TerminalErrors as `resolve_behind_fence`.
    """
    seen = with_offsets_now(clusters.source, tuple(topics))
    wanted = {topic.at_source(one.partition) for topic in topics for one in topic.provisioned}
    if not wanted or not wanted.isdisjoint(owned.progress) or not wanted.isdisjoint(followed):
        return ()
    ledger = read_behind_fence(owned.flow, clusters.target)
    same = any(topic.remote_topic == topic.topic for topic in topics)
    if same or owned.flow.homes is not None or ledger.came_home:
        return ()  # with loopback, the ledger notes for all lanes at once what each of them leaves out
    found = resolve_now(owned, clusters, seen, {}, max_bytes, follow=True, ledger=ledger)
    if found.stopped or wanted != {span.topic_partition for span in found.ranges}:
        return ()
    copies = clusters.target.offsets(span.remote for span in found.ranges).found
    empty = all(span.remote in copies and not copies[span.remote].end for span in found.ranges)
    return found.ranges if empty else ()

"""Find topics that another flow copies into the same copy: one source under two aliases, topic names unchanged.

Each alias has a ledger of its own on the target, so neither fence nor claim shows the other flow. Topic ids show it:
they are random, and a topic's id is the same under every name of its cluster. Both flows record a topic before they
copy it, and look behind their fences. The flow that recorded it later stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import StoppedPartition
from twinlog.errors import ClusterRefused, FormatError
from twinlog.lane.spec import RangeSpec
from twinlog.policy.state_topics import source_of_ledger
from twinlog.state.ledger import ledger_in, read_ledger
from twinlog.topics.incarnations import differ

COPIED_TWICE = "copied-twice"


def copied_by_others(
    flow: FlowSettings, clusters: Clusters, ranges: Iterable[RangeSpec]
) -> Mapping[str, str]:
    """Return, by topic, the other flow that copies it into the same copy, and did so first.

    Ledgers that cannot be read are skipped. Raises errors of the target.
    """
    wanted = {(it.topic, it.topic_id, it.remote_topic): it.remote_topic_id for it in ranges if it.topic_id}
    since = {topic: life.since_ms for topic, life in read_ledger(flow, clusters.target).incarnations.items()}
    found: dict[str, str] = {}
    for name in clusters.target.topic_names():
        alias = source_of_ledger(name)
        if alias is None or name == flow.ledger_topic or not wanted:
            continue
        try:
            lives = ledger_in(clusters.target, name).lives
        except (ClusterRefused, FormatError):
            continue
        for life in lives:
            copy = wanted.get((life.topic, life.topic_id, life.remote_topic))
            if copy is None or differ(life.remote_topic_id, copy):
                continue
            if (life.since_ms, alias) < (since.get(life.topic, life.since_ms), flow.source.alias):
                found[life.topic] = f"{alias}->{flow.target.alias}"
    return found


def stopped_by(item: RangeSpec, first: str) -> StoppedPartition:
    """Say why a partition that another flow copies is not copied. Pure."""
    message = (
        f"{item.topic}-{item.partition}: {first} copies the same topic into {item.remote_topic}, under another name of"
        " the source: everything would be there twice; exclude it from one of the two, or if that flow is gone, see"
        " docs/operations.md, Names and clusters"
    )
    return StoppedPartition(item.topic, item.partition, COPIED_TWICE, message)

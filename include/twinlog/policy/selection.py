"""Select the topics that a flow replicates, and say why the others are left out (MM2's MirrorSourceConnector)."""

from __future__ import annotations

import re
from collections.abc import Container

from twinlog.policy.filters import NameFilter
from twinlog.policy.replication import IdentityReplicationPolicy, ReplicationPolicy

# The state topics of Connect's worker and of twinlog keep their dots whatever the policy's separator, and then
# its rule for internal names misses them.  A flow must never copy a flow's state or quarantined records.
_STATE_TOPIC = re.compile(
    r"mm2-(offsets|status|configs|offset-map|ledger|quarantine)\..*\.internal", re.DOTALL
)


def why_left_out(
    topic: str,
    *,
    topics: NameFilter,
    policy: ReplicationPolicy,
    source_alias: str,
    target_alias: str,
    heartbeats_replication: bool,
    cycle_rule: str,
    progress_topics: Container[str] = (),
) -> str | None:
    """Return why the flow does not replicate `topic` of the source, as text for people; None if it does.

    With `heartbeats_replication`, heartbeats pass the filter, but not the rules on internal topics and cycles.
    `cycle_rule` is "mm2-4.3" or "mm2-4.4".  `progress_topics` hold flows' progress under names that users chose: if
    such a topic were copied, the copying itself would make it grow, in both directions and for ever.
    """
    if is_internal(topic, policy):
        return "internal topic"
    if topic in progress_topics:
        return "holds the progress of a flow (offset.storage.topic)"
    through = cycle_alias(
        topic, policy=policy, source_alias=source_alias, target_alias=target_alias, cycle_rule=cycle_rule
    )
    if through is not None:
        return f"cycle: by its name it came through {through}"
    if heartbeats_replication and policy.is_heartbeats_topic(topic):
        return None
    return _why_filtered(topic, topics)


def _why_filtered(topic: str, topics: NameFilter) -> str | None:
    if not topics.includes(topic):
        return "no pattern of topics matches it"
    return "a pattern of topics.exclude matches it" if topics.excludes(topic) else None


def is_internal(topic: str, policy: ReplicationPolicy) -> bool:
    """Say whether `topic` is internal by the policy, or holds a flow's state."""
    return policy.is_internal_topic(topic) or _STATE_TOPIC.fullmatch(topic) is not None


def cycle_alias(
    topic: str, *, policy: ReplicationPolicy, source_alias: str, target_alias: str, cycle_rule: str
) -> str | None:
    """Return the hop that makes `topic` a cycle: the target's alias, in any of the hops that its name shows.

    "mm2-4.4" also refuses the source's own alias (KAFKA 4.4), unless names show no hops (identity policy).
    """
    forbidden = {target_alias}
    if cycle_rule == "mm2-4.4" and not isinstance(policy, IdentityReplicationPolicy):
        forbidden.add(source_alias)
    seen: set[str] = set()  # a custom policy may lead in circles
    hop: str | None = topic
    while hop is not None and hop not in seen:
        source = policy.topic_source(hop)
        if source is None:
            return None
        if source in forbidden:
            return source
        seen.add(hop)
        hop = policy.upstream_topic(hop)
    return None

"""Decide whose settings the metadata sync may follow: the copied incarnations' and their cluster's.  Pure.

A recreated topic has none of the settings of the one before, and a recreated cluster has none at all.  If the sync
followed them, it would remove settings from the only copy there is, and its brokers would delete records that exist
nowhere else.  So it follows only the incarnation that is copied; all else stays as it is, as the copy itself does
(docs/decisions/0010-lives-of-topics.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.cluster.values import TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.state.ledger import Ledger
from twinlog.topics.discover import left_out_reason
from twinlog.topics.incarnations import differ
from twinlog.topics.refusal import Refusal


def another_source(flow: FlowSettings, ledger: Ledger, cluster_id: str) -> Refusal | None:
    """Refuse everything while a topic of the flow was copied from a cluster other than the present source."""
    alias = flow.source.alias
    for topic, life in sorted(ledger.incarnations.items()):
        if left_out_reason(flow, topic) is None and differ(life.source_cluster_id, cluster_id):
            return Refusal(
                f"settings of {alias}",
                "source-changed",
                f"{alias} is another cluster than the one {topic} was copied from: its id was"
                f" {life.source_cluster_id} and is {cluster_id}; nothing is changed on {flow.target.alias}",
                f"check {alias}.bootstrap.servers; if it is meant, rebuild the topics, and exclude those it lacks",
            )
    return None


def other_incarnation(
    flow: FlowSettings, ledger: Ledger, topic: str, source: TopicDescription, copy: TopicDescription
) -> Refusal | None:
    """Refuse the configs of a topic, or of a copy, that was recreated since it was copied."""
    known = ledger.incarnations.get(topic)
    if known is None:
        return None
    made_anew = {
        f"topic {topic} on {flow.source.alias}": differ(known.topic_id, source.topic_id),
        f"{copy.name}, its copy on {flow.target.alias},": differ(known.remote_topic_id, copy.topic_id),
    }
    which = next((name for name, is_so in made_anew.items() if is_so), None)
    if which is None:
        return None
    return Refusal(
        f"configs of {copy.name}",
        "recreated",
        f"{which} was deleted and created again; {copy.name} keeps its settings",
        f"`twinlog rebuild --topic {topic}` copies it anew, or set twinlog.on.recreated",
    )


def copied_incarnations(
    flow: FlowSettings,
    ledger: Ledger,
    source: Mapping[str, TopicDescription],
    copies: Mapping[str, TopicDescription],
) -> tuple[dict[str, TopicDescription], tuple[Refusal, ...]]:
    """Split copies (under their topics' names) into those whose configs follow, and refusals of the others."""
    refused = {
        topic: refusal
        for topic, copy in copies.items()
        if topic in source and (refusal := other_incarnation(flow, ledger, topic, source[topic], copy))
    }
    follow = {topic: copy for topic, copy in copies.items() if topic in source and topic not in refused}
    return follow, tuple(refused.values())

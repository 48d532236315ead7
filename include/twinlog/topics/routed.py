"""Plan the topics of the target to which rules route records: created if they are not there, never grown.  Pure.

A new one has as many partitions as the largest of the topics that are routed to it, the flow's replication factor, and
the target's defaults besides.  It is not grown: with other partitions a key would go to another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.grouped import grouped
from twinlog.state.ledger import Ledger, of_partition
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.plan import Change, ChangeKind, Refusal, clamped

ROUTED_DELETED = "routed-topic-deleted"
"""Code of a routed topic that is gone although records were routed to it."""


def sources(flow: FlowSettings, topics: Iterable[DiscoveredTopic]) -> Mapping[str, list[DiscoveredTopic]]:
    """Return the source topics whose rules route records to each topic of the target."""
    return grouped(
        (name, topic)
        for topic in (topics if flow.transforms.routes else ())
        for name in dict.fromkeys(it.to for it in flow.chain_of(topic.topic, topic.remote_topic).routes)
    )


def plan_routed(
    flow: FlowSettings,
    topics: Iterable[DiscoveredTopic],
    there: Answers[str, TopicDescription],
    ledger: Ledger,
    brokers: int,
) -> tuple[tuple[Change, ...], tuple[Refusal, ...]]:
    """Return the routed topics to create, and those that cannot be; `there` is what the target says of them."""
    changes: list[Change] = []
    refused: list[Refusal] = []
    for name, routed in sorted(sources(flow, topics).items()):
        error = there.refused.get(name)
        if name in there.found:
            continue
        if error is not None and error.code != NO_SUCH_TOPIC:
            refused.append(Refusal.of(name, error))
        elif copied := next(_through_their_chain(flow, routed, ledger), None):
            why = f"{name} on {flow.target.alias} is gone: records of {copied} were routed to it"
            hint = "create it by hand to go on without those records"
            refused.append(Refusal(name, ROUTED_DELETED, why, hint))
        else:
            changes.append(
                Change(
                    ChangeKind.CREATE,
                    name,
                    max(it.partition_count for it in routed),
                    clamped(flow.replication_factor, brokers),
                    wanted_factor=flow.replication_factor,
                )
            )
    return tuple(changes), tuple(refused)


def _through_their_chain(
    flow: FlowSettings, routed: Iterable[DiscoveredTopic], ledger: Ledger
) -> Iterator[str]:
    """Yield the topics of which records were copied through their present chain."""
    for topic in routed:
        chain = flow.chain_of(topic.topic, topic.remote_topic).print
        for partition in range(topic.partition_count):
            for it in of_partition(ledger.chains, topic.topic, partition):
                if (it.topic_id, it.print) == (topic.topic_id, chain):
                    yield topic.topic

"""Find the transaction that holds a partition's last stable offset back, and its owner (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinlog.cluster.values import Answers
from twinlog.errors import TransientError, TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code, error_for
from twinlog.protocol.leader_epochs import producer_states, tells_producers
from twinlog.protocol.socket.connection import Connection


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The oldest open transaction of a partition, as far as its brokers tell.

    `first_offset` is where it begins there. `transactional_id` is "" if no coordinator tells one: this user may not
    see it (DESCRIBE on the transactional id), brokers are older than Kafka 3.0, or no coordinator knows the
    transaction any more. `started_ms` (epoch ms) and `timeout_ms` are the coordinator's, None if it does not hold the
    transaction open.
    """

    first_offset: int
    producer_id: int
    producer_epoch: int
    transactional_id: str = ""
    started_ms: int | None = None
    timeout_ms: int | None = None

    @property
    def ends_by_itself(self) -> bool:
        """Say whether a coordinator holds it open, and aborts it when its time-out is over."""
        return self.started_ms is not None


def open_transactions(
    brokers: Brokers, partitions: Iterable[TopicPartition]
) -> Answers[TopicPartition, OpenTransaction]:
    """Ask leaders for the oldest open transaction of each partition, and coordinators for its owner.

    Partitions without one are left out. This needs READ on the topics, and DESCRIBE on transactional ids to see them.
    Raises TransientError, ClusterUnreachable.
    """
    wanted = list(partitions)
    found, refused = _at_leaders(brokers, wanted)
    ids = {one.producer_id for one in found.values()}
    named = _named(brokers, ids) if ids else {}
    return Answers(
        {at: _completed(at, one, named.get(one.producer_id)) for at, one in found.items()}, refused
    )


def _at_leaders(
    brokers: Brokers, wanted: list[TopicPartition]
) -> tuple[dict[TopicPartition, OpenTransaction], dict[TopicPartition, TwinlogError]]:
    topics = brokers.metadata({at.topic for at in wanted})
    led = [at for at in wanted if topics[at.topic].is_led(at.partition)]
    refused: dict[TopicPartition, TwinlogError] = {
        at: TransientError(f"{at.topic}-{at.partition} has no leader", code="unsettled")
        for at in set(wanted) - set(led)
    }
    found: dict[TopicPartition, OpenTransaction] = {}
    for node, group in brokers.by_leader(led).items():
        connection = brokers.node(node, "coordinate")
        if not tells_producers(connection):
            refused |= {TopicPartition(*it): _refusal(brokers, *it, Code.UNSUPPORTED_VERSION) for it in group}
            continue
        states, codes = producer_states(connection, group)
        refused |= {TopicPartition(*it): _refusal(brokers, *it, code) for it, code in codes.items()}
        for it, producers in states.items():
            still_open = [one for one in producers if one.first_offset >= 0]
            if still_open:
                first = min(still_open, key=lambda one: one.first_offset)
                found[TopicPartition(*it)] = OpenTransaction(
                    first.first_offset, first.producer_id, first.producer_epoch
                )
    return found, refused


def _refusal(brokers: Brokers, topic: str, partition: int, code: int) -> TwinlogError:
    return error_for(code, f"the question who writes to {topic}-{partition}", brokers.settings.alias)


def _named(brokers: Brokers, producer_ids: Collection[int]) -> Mapping[int, Any]:
    """Ask every coordinator for transactions of these producers; return the answers, by producer id."""
    try:
        told = brokers.of_all(lambda connection: _described(connection, producer_ids))
    except TwinlogError:  # the producer's id is known without them
        return {}
    return {producer: it for described in told for producer, it in described.items()}


def _described(connection: Connection, producer_ids: Collection[int]) -> dict[int, Any]:
    listing, describing = kafka_python.LIST_TRANSACTIONS, kafka_python.DESCRIBE_TRANSACTIONS
    if min(connection.offers(api.request.API_KEY) for api in (listing, describing)) < 0:
        return {}
    listed = connection.call(listing, state_filters=[], producer_id_filters=sorted(producer_ids))
    names = [state.transactional_id for state in listed.transaction_states]
    if not names:
        return {}
    answer = connection.call(describing, transactional_ids=names)
    return {int(state.producer_id): state for state in answer.transaction_states if not state.error_code}


def _completed(at: TopicPartition, one: OpenTransaction, told: Any) -> OpenTransaction:
    """Add what a coordinator told of the producer; a transaction that it does not hold open there has no start."""
    if told is None:
        return one
    named = replace(one, transactional_id=told.transactional_id)
    holds = any(topic.topic == at.topic and at.partition in topic.partitions for topic in told.topics)
    if not holds or told.producer_epoch != one.producer_epoch or told.transaction_start_time_ms < 0:
        return named
    return replace(
        named, started_ms=int(told.transaction_start_time_ms), timeout_ms=int(told.transaction_timeout_ms)
    )

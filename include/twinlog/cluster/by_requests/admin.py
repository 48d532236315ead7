"""Answer as confluent-kafka's AdminClient does, by requests over connections of our own.

Only what twinlog asks of it is here.  Each method has waited for the answers when it returns its futures; it raises
ClusterUnreachable and ClusterRefused if the cluster as a whole cannot be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import IsolationLevel, Node, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka import admin as kafka_admin

from twinlog.cluster.by_requests import group_description
from twinlog.cluster.by_requests.answers import config_entry, future, operations, topic_description
from twinlog.config.security.connection import ConnectionSettings
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers, KeptBrokers
from twinlog.protocol.errors import Code
from twinlog.protocol.kafka_python import Api
from twinlog.protocol.socket.connection import Connection

_TIMEOUT_MS = 25_000
"""How long brokers may take for a change."""

_TOPIC = kafka_admin.ResourceType.TOPIC.value
Futures = dict[Any, Future[Any]]


class RequestAdmin:
    """The admin client of a cluster that confluent-kafka cannot log in to."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._kept = KeptBrokers(settings)

    def poll(self, _seconds: float) -> None:
        """Do nothing: no request is under way."""

    def list_topics(self, **_: Any) -> SimpleNamespace:
        """Return `topics`, the names of all that this user may see."""
        with self._kept.lent() as brokers:
            return SimpleNamespace(topics=brokers.topic_names())

    def describe_cluster(self, *, include_authorized_operations: bool = False, **_: Any) -> Future[Any]:
        """Describe the cluster."""
        answer = self._described([], of_cluster=include_authorized_operations)
        nodes = _nodes(answer)
        controller = nodes.get(answer.controller_id) or Node(answer.controller_id, "", -1)
        allowed = operations(answer.authorized_operations)
        found = kafka_admin.DescribeClusterResult(controller, [*nodes.values()], answer.cluster_id, allowed)
        return future(0, value=found)

    def describe_topics(self, topics: TopicCollection, **_: Any) -> Futures:
        """Describe topics, with what this user may do on them."""
        answer = self._described(topics.topic_names)
        nodes = _nodes(answer)
        return {
            topic.name: future(topic.error_code, None, topic_description(topic, nodes))
            for topic in answer.topics
        }

    def _described(self, names: Iterable[str], *, of_cluster: bool = False) -> Any:
        topic = kafka_python.DESCRIPTION.request.MetadataRequestTopic
        with self._kept.lent() as brokers:
            return brokers.ask_any(
                kafka_python.DESCRIPTION,
                topics=[topic(name=name) for name in names],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=of_cluster,
                include_topic_authorized_operations=not of_cluster,
            )

    def create_topics(
        self, topics: Sequence[kafka_admin.NewTopic], *, validate_only: bool = False, **_: Any
    ) -> Futures:
        """Create topics, each with its own answer."""
        api = kafka_python.CREATE_TOPICS
        new, setting = api.request.CreatableTopic, api.request.CreatableTopic.CreatableTopicConfig
        wanted = [
            new(
                name=topic.topic,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=[],
                configs=[setting(name=name, value=value) for name, value in (topic.config or {}).items()],
            )
            for topic in topics
        ]
        answer = self._of_controller(api, topics=wanted, validate_only=validate_only, timeout_ms=_TIMEOUT_MS)
        return {topic.name: future(topic.error_code, topic.error_message) for topic in answer.topics}

    def create_partitions(
        self, counts: Sequence[kafka_admin.NewPartitions], *, validate_only: bool = False, **_: Any
    ) -> Futures:
        """Grow topics, each with its own answer."""
        api = kafka_python.CREATE_PARTITIONS
        wanted = [
            api.request.CreatePartitionsTopic(name=count.topic, count=count.new_total_count, assignments=None)
            for count in counts
        ]
        answer = self._of_controller(api, topics=wanted, validate_only=validate_only, timeout_ms=_TIMEOUT_MS)
        return {result.name: future(result.error_code, result.error_message) for result in answer.results}

    def delete_topics(self, names: Sequence[str], **_: Any) -> Futures:
        """Delete topics, each with its own answer."""
        answer = self._of_controller(
            kafka_python.DELETE_TOPICS, topic_names=list(names), timeout_ms=_TIMEOUT_MS
        )
        return {
            response.name: future(response.error_code, response.error_message)
            for response in answer.responses
        }

    def _of_controller(self, api: Api, **fields: Any) -> Any:
        with self._kept.lent() as brokers:
            return _controller(brokers).call(api, **fields)

    def describe_configs(self, resources: Sequence[kafka_admin.ConfigResource], **_: Any) -> Futures:
        """Tell all settings of topics."""
        api = kafka_python.DESCRIBE_CONFIGS
        by_name = {resource.name: resource for resource in resources}
        wanted = [
            api.request.DescribeConfigsResource(
                resource_type=_TOPIC, resource_name=name, configuration_keys=None
            )
            for name in by_name
        ]
        with self._kept.lent() as brokers:
            answer = brokers.ask_any(api, resources=wanted, include_synonyms=False)
        return {
            by_name[result.resource_name]: future(
                result.error_code,
                result.error_message,
                {each.name: config_entry(each) for each in result.configs},
            )
            for result in answer.results
        }

    def incremental_alter_configs(
        self, resources: Sequence[kafka_admin.ConfigResource], *, validate_only: bool = False, **_: Any
    ) -> Futures:
        """Set and remove settings of topics, each topic with its own answer."""
        api = kafka_python.ALTER_CONFIGS
        change = api.request.AlterConfigsResource
        by_name = {resource.name: resource for resource in resources}
        wanted = [
            change(
                resource_type=_TOPIC,
                resource_name=name,
                configs=[
                    change.AlterableConfig(
                        name=config.name,
                        config_operation=config.incremental_operation.value,
                        value=config.value,
                    )
                    for config in resource.incremental_configs
                ],
            )
            for name, resource in by_name.items()
        ]
        answer = self._of_controller(api, resources=wanted, validate_only=validate_only)
        return {
            by_name[response.resource_name]: future(response.error_code, response.error_message)
            for response in answer.responses
        }

    def delete_records(self, before: Sequence[ClientPartition], **_: Any) -> Futures:
        """Delete the records of partitions before their offsets."""
        request = kafka_python.DELETE_RECORDS.request.DeleteRecordsTopic
        part = request.DeleteRecordsPartition

        def ask(leader: Connection, places: list[ClientPartition]) -> Any:
            of_topic = grouped(
                (place.topic, part(partition_index=place.partition, offset=place.offset)) for place in places
            )
            topics = [request(name=name, partitions=its) for name, its in of_topic.items()]
            return leader.call(kafka_python.DELETE_RECORDS, topics=topics, timeout_ms=_TIMEOUT_MS)

        return self._of_leaders(before, ask, lambda it: it.low_watermark)

    def list_offsets(
        self,
        specs: Mapping[ClientPartition, Any],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        **_: Any,
    ) -> Futures:
        """Tell an offset of each partition: the first, the last, or by time."""
        request = kafka_python.LIST_OFFSETS.request.ListOffsetsTopic
        part = request.ListOffsetsPartition

        def ask(leader: Connection, places: list[ClientPartition]) -> Any:
            of_topic = grouped(
                (
                    place.topic,
                    part(
                        partition_index=place.partition,
                        current_leader_epoch=-1,
                        timestamp=specs[place]._value,
                    ),
                )
                for place in places
            )
            return leader.call(
                kafka_python.LIST_OFFSETS,
                replica_id=-1,
                isolation_level=isolation_level.value,
                topics=[request(name=name, partitions=its) for name, its in of_topic.items()],
            )

        return self._of_leaders(
            specs, ask, lambda it: kafka_admin.ListOffsetsResultInfo(it.offset, it.timestamp, -1)
        )

    def _of_leaders(self, places: Iterable[ClientPartition], ask: Any, value: Any) -> Futures:
        """Ask the leader of each partition; one without a leader has the code that its topic has in the metadata."""
        result: Futures = {}
        by_place = {TopicPartition(place.topic, place.partition): place for place in places}
        with self._kept.lent() as brokers:
            topics = brokers.metadata({it.topic for it in by_place})
            led: list[tuple[int, ClientPartition]] = []
            for at, it in by_place.items():
                leader = topics[at.topic].leaders.get(at.partition)
                code = topics[at.topic].error or (
                    Code.UNKNOWN_TOPIC_OR_PARTITION if leader is None else Code.LEADER_NOT_AVAILABLE
                )
                if leader is None or leader < 0:
                    result[it] = future(code)
                else:
                    led.append((leader, it))
            for node, its in grouped(led).items():
                answer = ask(brokers.node(node, "coordinate"), its)
                for topic in answer.topics:
                    for partition in topic.partitions:
                        at = TopicPartition(topic.name, partition.partition_index)
                        result[by_place[at]] = future(partition.error_code, None, value(partition))
        return result

    def describe_consumer_groups(self, names: Sequence[str], **_: Any) -> Futures:
        """Describe groups with their members."""
        with self._kept.lent() as brokers:
            return group_description.describe(brokers, names)


def _nodes(answer: Any) -> dict[int, Node]:
    return {
        broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in answer.brokers
    }


def _controller(brokers: Brokers) -> Connection:
    """Return a connection to the controller; in KRaft any broker is called so, and passes requests on."""
    brokers.metadata([])
    answer = brokers.ask_any(kafka_python.DESCRIPTION, topics=[], allow_auto_topic_creation=False)
    known = brokers.knows(answer.controller_id)
    return brokers.node(answer.controller_id, "coordinate") if known else brokers.any_broker()

"""What `discover` says about topics, from clusters in memory."""

from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import CopiedBy
from twinlog.errors import ClusterRefused, TerminalError, TransientError
from twinlog.formats.ledger.records import Incarnation
from twinlog.formats.ledger.writers import FlowClaim
from twinlog.jsonable import to_json
from twinlog.kafka_types import TopicPartition
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import write_ledger
from twinlog.steps import discover
from twinlog.topics.discovery import BLOCKING, LeftOut, ProblemCode, RemoteTopic
from twinlog.topics.snapshot import with_later_ends


def codes(discovery) -> list[tuple[str, ProblemCode]]:
    return [(problem.topic, problem.code) for problem in discovery.problems]


def test_a_new_topic_is_found_with_its_offsets_and_no_copy(flow, clusters, source):
    """Upstream offsets are read; the remote name is the policy's; without a copy it is not ready."""
    topic = source.add_topic("orders", 2)
    at = TopicPartition("orders", 0)
    for _ in range(3):
        source.append(at, key=b"k", value=b"v")
    source.delete_records(at, before=1)
    (found,) = discover.run(flow, clusters).topics
    assert ("orders", topic.topic_id, "A.orders", None) == (
        found.topic,
        found.topic_id,
        found.remote_topic,
        found.remote,
    )
    assert [PartitionOffsets(1, 3, 3), PartitionOffsets(0, 0, 0)] == [it.source for it in found.partitions]
    assert not found.ready


def test_a_topic_with_its_copy_is_ready(flow, clusters, source, target):
    """Both sides are there, partition by partition."""
    source.add_topic("orders", 2)
    remote = target.add_topic("A.orders", 3)
    (found,) = discover.run(flow, clusters).ready_topics
    assert RemoteTopic(remote.topic_id, 3) == found.remote
    assert [PartitionOffsets(0, 0, 0)] * 2 == [it.target for it in found.partitions]


def test_where_flows_keep_their_progress_is_left_out(flow, clusters, source):
    """This flow's name on either side, and what a flow into the source calls its own."""
    for name in ("offsets", "orders", "progress"):
        source.add_topic(name)
    flow = replace(flow, offset_storage_topic="offsets", progress_on_source=frozenset({"progress"}))
    discovery = discover.run(flow, clusters)
    assert ["orders"] == [topic.topic for topic in discovery.topics]
    assert ["offsets", "progress"] == [it.topic for it in discovery.left_out]


def test_topics_left_out_say_why(flow, clusters, source):
    """Internal topics, cycles and filtered names each have a reason."""
    for name in ("__consumer_offsets", "B.orders", "orders", "secret"):
        source.add_topic(name)
    flow = replace(flow, topics=NameFilter((".*",), ("secret",)))
    discovery = discover.run(flow, clusters)
    assert ["orders"] == [topic.topic for topic in discovery.topics]
    assert [
        LeftOut("B.orders", "cycle: by its name it came through B"),
        LeftOut("__consumer_offsets", "internal topic"),
        LeftOut("secret", "a pattern of topics.exclude matches it"),
    ] == list(discovery.left_out)


def test_a_recreated_topic_stops(flow, clusters, source, with_internal):
    """Another topic id than the ledger's is another life; its records are not put behind the old ones."""
    source.add_topic("orders")
    with_internal.add_topic("A.orders")
    write_ledger(flow, with_internal, [Incarnation("orders", "an-earlier-id", 1, "A.orders")])
    discovery = discover.run(flow, clusters)
    assert [("orders", ProblemCode.RECREATED)] == codes(discovery)
    assert () == discovery.ready_topics


def test_a_known_topic_goes_on(flow, clusters, source, with_internal):
    """The same topic id is the same life."""
    topic = source.add_topic("orders")
    with_internal.add_topic("A.orders")
    write_ledger(flow, with_internal, [Incarnation("orders", topic.topic_id, 1, "A.orders")])
    discovery = discover.run(flow, clusters)
    assert ([], 1) == (codes(discovery), len(discovery.ready_topics))


def test_a_copy_that_was_deleted_stops(flow, clusters, source, with_internal):
    """Progress outlives the copy: made anew it would silently lack all that was copied before."""
    topic = source.add_topic("orders")
    write_ledger(flow, with_internal, [Incarnation("orders", topic.topic_id, 1, "A.orders")])
    discovery = discover.run(flow, clusters)
    assert ([("orders", ProblemCode.COPY_DELETED)], True) == (codes(discovery), discovery.topics[0].blocked)


@pytest.mark.parametrize(
    ("by", "todo"), [("twinlog", "`twinlog topics rebuild --topic orders`"), ("other", "let the engine")]
)
def test_who_copies_a_topic_copies_it_anew(flow, clusters, source, with_internal, by, todo):
    """A hint names no command that is refused for a copy of another engine."""
    source.add_topic("orders")
    with_internal.add_topic("A.orders")
    write_ledger(flow, with_internal, [Incarnation("orders", "an-earlier-id", 1, "A.orders")])
    (problem,) = discover.run(replace(flow, copied_by=CopiedBy(by)), clusters).problems
    assert (True, by == "twinlog") == (todo in problem.hint, "twinlog" in problem.hint)


def test_a_deleted_topic_is_said_and_stops_nothing(flow, clusters, source, with_internal):
    """The copy stays; the other topics go on."""
    source.add_topic("other")
    write_ledger(flow, with_internal, [Incarnation("orders", "id", 1, "A.orders")])
    discovery = discover.run(flow, clusters)
    assert [("orders", ProblemCode.DELETED)] == codes(discovery)
    assert not discovery.problems[0].blocking


class Shouting(IdentityReplicationPolicy):
    """A custom policy that maps two names onto one."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic.upper()


def test_two_topics_under_one_remote_name_both_stop(flow, clusters, source):
    """Nobody can say which of the two would be the right one."""
    for name in ("orders", "Orders", "payments"):
        source.add_topic(name)
    flow = replace(flow, policy=Shouting())
    discovery = discover.run(flow, clusters)
    assert [("Orders", ProblemCode.REMOTE_NAME_CLASH), ("orders", ProblemCode.REMOTE_NAME_CLASH)] == codes(
        discovery
    )
    assert {"Orders", "orders"} == {topic.topic for topic in discovery.topics if topic.blocked}


def test_a_copy_beside_which_kafka_takes_no_other_name_stops_its_topic(flow, clusters, source, target):
    """Names that differ in . and _ alone, or are too long, are never created; a copy that is there stays."""
    for name in ("r.c.d", "r.e.f", "n" * 248):
        source.add_topic(name)
    for name in ("A.r.c_d", "A.r.e.f", "A.r.e_f"):
        target.add_topic(name)
    discovery = discover.run(flow, clusters)
    expected = [("n" * 248, ProblemCode.TARGET_REFUSED), ("r.c.d", ProblemCode.REMOTE_NAME_CLASH)]
    assert expected == codes(discovery)
    assert "250 characters, and Kafka takes 249" in discovery.problems[0].message
    assert "B has A.r.c_d" in discovery.problems[1].message


def test_fewer_partitions_that_may_not_be_added_stop_the_topic(flow, clusters, source, target):
    """Without ALTER the copy cannot take every partition, so it takes none."""
    source.add_topic("orders", 3)
    target.add_topic("A.orders", 2).operations = frozenset({"READ", "WRITE"})
    discovery = discover.run(flow, clusters)
    assert [("orders", ProblemCode.FEWER_PARTITIONS)] == codes(discovery)
    assert "grant ALTER on topic A.orders" in discovery.problems[0].hint


def test_fewer_partitions_that_may_be_added_are_no_problem(flow, clusters, source, target):
    """sync_topics adds them; until then the others are copied."""
    source.add_topic("orders", 3)
    target.add_topic("A.orders", 2)
    discovery = discover.run(flow, clusters)
    assert ([], [0, 1]) == (codes(discovery), [it.partition for it in discovery.ready_topics[0].provisioned])


def test_a_refused_topic_does_not_hide_the_others(flow, clusters, source, target):
    """On either side, a topic this user may not see is named with what it needs."""
    for name in ("orders", "payments", "users"):
        source.add_topic(name)
        target.add_topic(f"A.{name}")
    source.refuse(
        "describe_topics", "orders", ClusterRefused("A does not allow orders", hint="grant DESCRIBE")
    )
    target.refuse(
        "describe_topics", "A.users", ClusterRefused("B does not allow A.users", hint="grant DESCRIBE")
    )
    discovery = discover.run(flow, clusters)
    assert [("orders", ProblemCode.SOURCE_REFUSED), ("users", ProblemCode.TARGET_REFUSED)] == codes(discovery)
    assert ["payments"] == [topic.topic for topic in discovery.ready_topics]


def test_a_partition_without_leader_does_not_stop_its_topic(flow, clusters, source, target):
    """What can be read is copied; what cannot is said."""
    source.add_topic("orders")
    target.add_topic("A.orders")
    source.refuse("offsets", "orders", ClusterRefused("no leader"))
    discovery = discover.run(flow, clusters)
    assert [("orders", ProblemCode.PARTITION_UNAVAILABLE)] == codes(discovery)
    assert () == discovery.topics[0].partitions


def test_a_schema_registry_is_told_where_its_topic_is(flow, clusters, source):
    """Under another name it would not look; with unchanged names there is nothing to say."""
    source.add_topic("_schemas")
    (problem,) = discover.run(flow, clusters).problems
    assert (ProblemCode.SCHEMAS_RENAMED, False) == (problem.code, problem.blocking)
    assert "kafkastore.topic=A._schemas and leader.eligibility=false" in problem.hint
    same = replace(flow, policy=IdentityReplicationPolicy(source_alias="A"))
    assert () == discover.run(same, clusters).problems


def test_a_name_that_matches_nothing_is_pointed_out(flow, clusters, source):
    """A plain name in `topics` that the source does not have is most likely a typo; a pattern is not."""
    source.add_topic("orders")
    flow = replace(flow, topics=NameFilter(("orders", "paymnets", "audit.*")))
    assert [("paymnets", ProblemCode.NO_SUCH_TOPIC)] == codes(discover.run(flow, clusters))


@pytest.mark.parametrize(("cluster_id", "copied"), [("cluster-B", []), ("cluster-C", ["west.orders"])])
def test_what_came_from_the_target_under_another_alias_is_a_cycle(flow, clusters, source, cluster_id, copied):
    """Copied back and forth it would get a longer name each time; the same name of another cluster is a chain."""
    source.add_topic("west.orders")
    source.add_topic("mm2-ledger.west.internal")
    claim = FlowClaim("west->east", cluster_id, "cluster-A", 1)
    source.append(TopicPartition("mm2-ledger.west.internal", 0), key=claim.key(), value=claim.value())
    found = discover.run(flow, clusters)
    assert copied == [it.topic for it in found.topics]
    assert copied or "which is called west in its name" in found.left_out[-1].reason


def test_a_second_name_of_the_target_is_refused(flow, clusters, with_internal):
    """Before anything is created or copied; the ledger says whose the state is."""
    claim = FlowClaim("A->west", "cluster-A", "cluster-B", 1)
    with_internal.append(TopicPartition(flow.ledger_topic, 0), key=claim.key(), value=claim.value())
    with pytest.raises(TerminalError, match="copied by A->west: A->B is a second name") as caught:
        discover.run(flow, clusters)
    assert "another-name" == caught.value.code


def test_one_cluster_under_two_aliases_is_refused(flow):
    """A flow from a cluster to itself would copy its own copies for ever."""
    from twinlog.cluster.api import Clusters

    one, same = FakeCluster("A", cluster_id="x"), FakeCluster("B", cluster_id="x")
    with pytest.raises(TerminalError, match="A and B are the same cluster") as caught:
        discover.run(flow, Clusters(one, same))
    assert "same-cluster" == caught.value.code


def test_a_discovery_is_json(flow, clusters, source, target):
    """It travels through XCom."""
    source.add_topic("orders")
    target.add_topic("A.orders")
    assert "A.orders" == to_json(discover.run(flow, clusters))["topics"][0]["remote_topic"]


def test_every_blocking_code_is_a_code():
    """The set names members of the enum only."""
    assert set(ProblemCode) >= BLOCKING


def test_ends_are_read_again_where_a_copy_went_on_meanwhile(flow, clusters, source):
    """Of three partitions one was copied further than was seen, one was cut, one has a leader that does not answer."""
    source.add_topic("orders", 1)
    source.add_topic("cut", 1)
    source.add_topic("quiet", 1)
    source.append(TopicPartition("orders", 0), key=b"k", value=b"0")
    seen = discover.run(flow, clusters).topics
    for _ in range(3):
        source.append(TopicPartition("orders", 0), key=b"k", value=b"v")
    source.delete_records(TopicPartition("orders", 0), before=3)
    source.refuse("offsets", "quiet", TransientError("no leader", code="no-leader"))
    progress = {TopicPartition(name, 0): 3 for name in ("orders", "cut", "quiet")}

    later = with_later_ends(source, seen, progress)

    assert {"cut": [PartitionOffsets(0, 0, 0)], "orders": [PartitionOffsets(0, 4, 4)], "quiet": []} == {
        it.topic: [partition.source for partition in it.partitions] for it in later
    }


def test_ends_that_lie_behind_what_was_copied_are_not_asked_for(flow, clusters, source):
    """A cycle with nothing new asks nothing more."""
    source.add_topic("orders", 1)
    source.append(TopicPartition("orders", 0), key=b"k", value=b"0")
    seen = discover.run(flow, clusters).topics
    source.calls.clear()
    assert (seen, []) == (
        with_later_ends(source, seen, {TopicPartition("orders", 0): 0}),
        source.calls,
    )

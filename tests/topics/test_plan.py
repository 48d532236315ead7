"""What `sync_topics` plans, without doing it."""

import copy
from dataclasses import replace

import pytest

from twinlog.cluster.values import ConfigSource, ConfigValue
from twinlog.config.flow.metadata import MetadataSettings, Profile
from twinlog.errors import ClusterRefused, TerminalError
from twinlog.lifecycle import sync_topics
from twinlog.lifecycle.sync_topics import make_plan
from twinlog.policy.selection import NameFilter
from twinlog.state.internal_topics import internal_topics
from twinlog.topics.plan import ChangeKind, clamped, creation_configs, excluded_configs
from twinlog.topics.snapshot import FlowSnapshot


def planned(flow, clusters):
    return make_plan(FlowSnapshot(flow, clusters))


def of(plan, kind):
    return [change for change in plan.changes if change.kind is kind]


def test_a_first_cycle_creates_the_internal_topics_first(flow, clusters, source):
    """Partition counts as MM2 has them, all compacted, replicas clamped to 3 brokers."""
    source.add_topic("orders", 2)
    plan = planned(replace(flow, offset_storage_replication_factor=5), clusters)
    assert [
        ("mm2-offsets.A.internal", 25, 3, True),
        ("mm2-offset-map.A.internal", 16, 3, True),
        ("mm2-ledger.A.internal", 1, 3, True),
        ("A.checkpoints.internal", 1, 3, False),
        ("heartbeats", 1, 3, False),
        ("A.orders", 2, 1, False),
    ] == [(it.name, it.partitions, it.replication_factor, it.vital) for it in plan.changes]
    assert {
        "cleanup.policy": "compact",
        "segment.bytes": "4194304",
        "delete.retention.ms": "86400000",
    } == plan.changes[0].configs
    assert any("replication factor 3 instead of 5 for mm2-" in note for note in plan.notes)


def test_nothing_to_do_is_an_empty_plan(flow, clusters, source, with_internal):
    """A second cycle finds everything in place."""
    source.add_topic("orders")
    with_internal.add_topic("A.orders")
    plan = planned(flow, clusters)
    assert ((), (), ()) == (plan.changes, plan.refused, plan.notes)


def test_a_copy_grows_and_never_shrinks(flow, clusters, source, with_internal):
    """Only a copy with fewer partitions is changed."""
    source.add_topic("few", 2)
    source.add_topic("many", 5)
    with_internal.add_topic("A.few", 4)
    with_internal.add_topic("A.many", 4)
    assert [(ChangeKind.GROW, "A.many", 5)] == [
        (it.kind, it.name, it.partitions) for it in planned(flow, clusters).changes
    ]


def test_a_source_without_topic_ids_is_said_once(flow, clusters, source, with_internal):
    """One line for all topics, in each cycle."""
    for name in ("orders", "payments"):
        source.add_topic(name).topic_id = ""
    (note,) = planned(flow, clusters).notes
    assert note.startswith(
        "A gives topics no ids, as Kafka before 2.8: whether orders (and 1 more) was deleted"
    )


def test_replication_factors_are_clamped_with_a_note(flow, clusters, source, with_internal):
    """A copy with fewer replicas is better than none; -1 is the broker's business."""
    source.add_topic("orders")
    plan = planned(replace(flow, replication_factor=4), clusters)
    assert [3] == [it.replication_factor for it in plan.changes]
    assert ("B has 3 brokers: replication factor 3 instead of 4 for A.orders",) == plan.notes
    assert [-1, 2, 3] == [clamped(factor, 3) for factor in (-1, 2, 4)]


ENTRIES = {
    it.name: it
    for it in (
        ConfigValue("cleanup.policy", "compact", ConfigSource.TOPIC),
        ConfigValue("retention.ms", "1", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ConfigValue("segment.bytes", "2", ConfigSource.STATIC_BROKER),
        ConfigValue("flush.ms", "3", ConfigSource.DEFAULT),
        ConfigValue("min.insync.replicas", "2", ConfigSource.TOPIC),
        ConfigValue("secret", None, ConfigSource.TOPIC, sensitive=True),
        ConfigValue("fixed", "4", ConfigSource.TOPIC, read_only=True),
    )
}
EXCLUDED = NameFilter((".*",), (r"min\.insync\.replicas",))


def test_a_copy_inherits_by_mm2s_creation_rule(flow):
    """Not excluded, not read-only, not sensitive, not from a broker's file, no defaults (MirrorSourceConnector)."""
    flow = replace(flow, config_properties_exclude=EXCLUDED, use_defaults_from="target")
    assert {"cleanup.policy": "compact", "retention.ms": "1"} == creation_configs(flow, ENTRIES)


def test_two_names_that_mm2_misspells_are_excluded_as_meant(flow):
    """From a new copy as from one that is synced; profile mm2 inherits them, as MM2 does."""
    names = ("log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms")
    flow = replace(flow, config_properties_exclude=NameFilter(exclude=names))
    topic = "message.timestamp.before.max.ms"
    assert excluded_configs(flow).excludes(topic)
    assert not excluded_configs(flow).excludes("message.timestamp.type")
    mm2 = replace(flow, metadata=MetadataSettings(profile=Profile.MM2))
    assert not excluded_configs(mm2).excludes(topic)


def test_use_defaults_from_source_copies_defaults_too(flow):
    """`use.defaults.from=source`."""
    assert "3" == creation_configs(replace(flow, use_defaults_from="source"), ENTRIES)["flush.ms"]


def test_a_topic_whose_configuration_cannot_be_read_is_not_created(flow, clusters, source, with_internal):
    """Made with the wrong cleanup.policy it would lose records; it is refused, the others are planned."""
    source.add_topic("orders")
    source.add_topic("payments")
    source.refuse("topic_configs", "orders", ClusterRefused("no", hint="grant DESCRIBE_CONFIGS"))
    plan = planned(flow, clusters)
    assert (["A.payments"], ["A.orders"]) == (
        [it.name for it in plan.changes],
        [it.name for it in plan.refused],
    )


@pytest.mark.parametrize(
    "name", ["mm2-offsets.A.internal", "mm2-offset-map.A.internal", "mm2-ledger.A.internal"]
)
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_state_that_would_expire_is_refused(flow, clusters, with_internal, name, policy):
    """Progress, map and ledger must be kept for ever."""
    with_internal.topics[name].configs["cleanup.policy"] = policy
    with pytest.raises(TerminalError, match=f"{name} on B has cleanup.policy={policy}") as caught:
        planned(flow, clusters)
    assert "cleanup-policy" == caught.value.code


def test_tombstones_of_an_earlier_release_are_kept_for_a_day(flow, clusters, with_internal):
    """A topic where they vanish sooner is brought to it, once; one that keeps them for longer stays as it is."""
    names = ["mm2-offsets.A.internal", "mm2-ledger.A.internal", "heartbeats"]
    for name, kept in zip(names, ["3600000", "86399999", "999999999"], strict=True):
        with_internal.topics[name].configs["delete.retention.ms"] = kept
    done = sync_topics.run(flow, clusters)
    assert [(ChangeKind.CONFIGURE_INTERNAL, it) for it in names[:2]] == [
        (it.kind, it.name) for it in done.changes
    ]
    assert ["86400000", "86400000", "999999999"] == [
        with_internal.topics[name].configs["delete.retention.ms"] for name in names
    ]
    assert () == sync_topics.run(flow, clusters).changes


def test_where_that_is_not_allowed_the_cycle_goes_on_and_says_so(flow, clusters, with_internal):
    """No right to alter configs was needed before."""
    with_internal.topics["mm2-ledger.A.internal"].configs["delete.retention.ms"] = "1"
    with_internal.refuse("alter_topic_configs", "delete.retention.ms", ClusterRefused("no", hint="grant it"))
    done = sync_topics.run(flow, clusters)
    said = "delete.retention.ms of mm2-ledger.A.internal on B should be 86400000 at least: no; grant it"
    assert ((), True, (said,)) == (done.changes, done.complete, done.notes)


def test_configurations_that_cannot_be_read_cost_one_line(flow, clusters, with_internal):
    """The plan names the first of the flow's own topics, and counts the others."""
    names = [it.name for it in internal_topics(flow)]
    for name in names:
        with_internal.refuse("topic_configs", name, ClusterRefused(f"no {name}", hint="grant it"))
    said = f"cleanup.policy cannot be checked: no {names[0]}; grant it (and {len(names) - 1} more)"
    assert [said] == [*planned(flow, clusters).notes]


def test_expiring_heartbeats_are_only_noted(flow, clusters, with_internal):
    """MM2 lives with that, so we do."""
    with_internal.topics["heartbeats"].configs["cleanup.policy"] = "delete"
    assert [
        "topic heartbeats on B has cleanup.policy=delete, so its records expire; set cleanup.policy=compact on it"
    ] == [*planned(flow, clusters).notes]


def test_a_flow_that_only_beats_needs_only_heartbeats(flow, clusters):
    """MM2's case of a disabled flow with heartbeats (MM2: MirrorMakerConfig.clusterPairs)."""
    plan = planned(replace(flow, enabled=False), clusters)
    assert ["heartbeats"] == [it.name for it in of(plan, ChangeKind.CREATE_INTERNAL)]


def test_with_refresh_topics_off_only_the_first_cycle_looks(flow, clusters, source, target):
    """As MM2 at its start: later neither new topics nor new partitions, and what is known goes on."""
    flow = replace(flow, refresh_topics=False)
    source.add_topic("orders")
    sync_topics.run(flow, clusters)
    assert 1 == len(target.topics["A.orders"].logs)
    source.add_topic("payments")
    source.create_partitions({"orders": 2})
    plan = planned(flow, clusters)
    note = "1 new topic(s) are not picked up (payments): refresh.topics is switched off"
    assert ((), (), (note,)) == (plan.changes, plan.first_seen, plan.notes)
    target.add_topic("A.payments")
    plan = planned(flow, clusters)
    assert (["payments"], ()) == ([it.topic for it in plan.first_seen], plan.notes)  # for it is copied now
    del target.topics["A.payments"]
    assert ["A.payments", "A.orders"] == [
        it.name for it in planned(replace(flow, refresh_topics=True), clusters).changes
    ]


def test_topics_seen_for_the_first_time_are_noted(flow, clusters, source):
    """Their topic id is what a later life is told apart by."""
    topic = source.add_topic("orders")
    assert [("orders", topic.topic_id)] == [
        (it.topic, it.topic_id) for it in planned(flow, clusters).first_seen
    ]


def test_planning_changes_nothing(flow, clusters, source, target):
    """Neither the clusters nor the discovery it is given."""
    source.add_topic("orders", 2)
    target.add_topic("A.orders", 1)
    seen = FlowSnapshot(flow, clusters)
    before = copy.deepcopy((source.topics, target.topics, seen.discovery))
    make_plan(seen)
    assert before == (source.topics, target.topics, seen.discovery)
    assert [] == target.calls

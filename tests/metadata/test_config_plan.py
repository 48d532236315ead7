"""Which configs of the copies would change: three ways by default, MM2's way by profile `mm2`."""

import copy
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import (
    Answers,
    ConfigSource,
    ConfigValue,
    PartitionDescription,
    TopicDescription,
)
from twinlog.config.flow.known_keys import KEYS
from twinlog.config.flow.metadata import MetadataSettings, Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.metadata import TopicConfigsSet
from twinlog.metadata.config_plan import TopicConfigState, plan_topic_configs
from twinlog.metadata.values import ConfigChange, ThreeWay, three_way
from twinlog.policy.selection import NameFilter

DEFAULTS = {
    "retention.ms": "604800000",
    "segment.ms": "1",
    "max.message.bytes": "2",
    "min.insync.replicas": "1",
    "message.timestamp.before.max.ms": "3",
}
values = st.none() | st.sampled_from(["1", "2", "3"])


def entries(**own: str) -> dict[str, ConfigValue]:
    """Defaults, and over them what was set on the topic; underscores for dots."""
    result = {name: ConfigValue(name, value, ConfigSource.DEFAULT) for name, value in DEFAULTS.items()}
    for name, value in own.items():
        dotted = name.replace("_", ".")
        result[dotted] = ConfigValue(dotted, value, ConfigSource.TOPIC)
    return result


def state(source: dict, target: dict, replicas: int = 1, brokers: int = 3) -> TopicConfigState:
    described = TopicDescription("A.t", "id", (PartitionDescription(0, 0, tuple(range(replicas))),))
    return TopicConfigState({"t": described}, Answers({"t": source}), Answers({"A.t": target}), brokers)


def changes(flow: FlowSettings, source: dict, target: dict, **remembered: str) -> list[tuple]:
    """(config, before, after) of a plan; `remembered` is what twinlog set once."""
    memory = [TopicConfigsSet("A.t", {name.replace("_", "."): it for name, it in remembered.items()}, 0)]
    plan = plan_topic_configs(flow, state(source, target), memory)
    return [(it.config, it.before, it.after) for it in plan.changes]


def with_mm2(flow: FlowSettings) -> FlowSettings:
    return replace(flow, metadata=MetadataSettings(profile=Profile.MM2))


@given(values, values, values)
def test_what_somebody_else_set_is_never_changed(wanted, there, remembered):
    """The law of the three-way diff: a value on the target that twinlog did not give stays."""
    verdict = three_way(wanted, there, remembered)
    assert (there == wanted) == (verdict is ThreeWay.AGREED)
    if verdict is ThreeWay.CHANGE:
        assert there in {None, remembered}
    if verdict is ThreeWay.KEEP:
        assert there not in {None, remembered}


def test_what_the_source_sets_is_set(flow):
    """On a copy that has no own value."""
    assert [("retention.ms", None, "5")] == changes(flow, entries(retention_ms="5"), entries())


def test_what_twinlog_set_follows_the_source(flow):
    """To another value, and away when the source goes back to its default."""
    assert [("retention.ms", "5", "6")] == changes(
        flow, entries(retention_ms="6"), entries(retention_ms="5"), retention_ms="5"
    )
    assert [("retention.ms", "5", None)] == changes(
        flow, entries(), entries(retention_ms="5"), retention_ms="5"
    )


def test_an_override_of_the_standby_is_kept_and_reported(flow):
    """Whether twinlog had set the value before or not."""
    for memory in ([], [TopicConfigsSet("A.t", {"retention.ms": "5"}, 0)]):
        plan = plan_topic_configs(flow, state(entries(retention_ms="6"), entries(retention_ms="9")), memory)
        assert () == plan.changes
        [drift] = plan.drift
        assert ("topic A.t", "retention.ms", "6", "9") == (
            drift.resource,
            drift.name,
            drift.source,
            drift.target,
        )
        assert "kept; delete it there to follow A again" in drift.message


def test_deleting_an_override_hands_it_back(flow):
    """What is not set on the topic is nobody's."""
    assert [("retention.ms", None, "6")] == changes(
        flow, entries(retention_ms="6"), entries(), retention_ms="5"
    )


def test_agreement_is_remembered(flow):
    """A copy of MM2's that has the source's value is twinlog's to keep in step from then on."""
    plan = plan_topic_configs(flow, state(entries(retention_ms="5"), entries(retention_ms="5")), [])
    assert ((), (ConfigChange("A.t", "retention.ms", "5", "5"),)) == (plan.changes, plan.agreed)
    gone = plan_topic_configs(
        flow, state(entries(), entries()), [TopicConfigsSet("A.t", {"retention.ms": "5"}, 0)]
    )
    assert ((), (ConfigChange("A.t", "retention.ms", None, None),)) == (gone.changes, gone.agreed)


def test_a_brokers_own_file_is_not_for_another_cluster(flow):
    """A value that the source has from server.properties is not copied; one twinlog had set for it is removed."""
    source = entries() | {"segment.ms": ConfigValue("segment.ms", "9", ConfigSource.STATIC_BROKER)}
    assert [] == changes(flow, source, entries())
    assert [("segment.ms", "8", None)] == changes(flow, source, entries(segment_ms="8"), segment_ms="8")
    assert [] == changes(with_mm2(flow), source, entries(segment_ms="8"))


def test_mm2_overwrites_and_removes(flow):
    """Its incremental sync: SET what is not a default, DELETE what is, whatever the target has."""
    mm2 = with_mm2(flow)
    target = entries(retention_ms="9", max_message_bytes="7")
    assert [("max.message.bytes", "7", None), ("retention.ms", "9", "6")] == changes(
        mm2, entries(retention_ms="6"), target
    )
    from_source = replace(mm2, use_defaults_from="source")
    assert ("max.message.bytes", "7", "2") in changes(from_source, entries(retention_ms="6"), target)


def test_excluded_configs_are_left_alone(flow):
    """MM2's default list, with its two misspelt names put right; profile mm2 has them as MM2 has."""
    default = KEYS["config.properties.exclude"].default or ""
    flow = replace(flow, config_properties_exclude=NameFilter(exclude=tuple(default.split(","))))
    source = entries(min_insync_replicas="2", message_timestamp_before_max_ms="9")
    assert [] == changes(flow, source, entries())
    assert [("message.timestamp.before.max.ms", None, "9")] == changes(with_mm2(flow), source, entries())


def test_a_config_the_target_does_not_know_is_refused_by_itself(flow):
    """The others of the topic are planned."""
    plan = plan_topic_configs(flow, state(entries(new_config="1", retention_ms="5"), entries()), [])
    assert (ConfigChange("A.t", "retention.ms", None, "5"),) == plan.changes
    [refusal] = plan.refused
    assert ("topic A.t: new.config", "unknown-config") == (refusal.name, refusal.code)
    assert "config.properties.exclude" in refusal.hint


def test_a_topic_that_cannot_be_read_is_refused_by_itself(flow):
    """With what it needs."""
    error = ClusterRefused("no", hint="grant DESCRIBE_CONFIGS", code="unauthorised")
    seen = replace(state(entries(), entries()), source=Answers({}, {"t": error}))
    [refusal] = plan_topic_configs(flow, seen, []).refused
    assert ("configs of A.t", "unauthorised", "grant DESCRIBE_CONFIGS") == (
        refusal.name,
        refusal.code,
        refusal.hint,
    )


def test_replication_factors_are_compared_within_what_the_target_holds(flow):
    """Too few replicas are drift; a factor above the number of brokers is clamped, and said."""
    plan = plan_topic_configs(replace(flow, replication_factor=2), state(entries(), entries(), 1, 3), [])
    assert [("replication factor", "2", "1")] == [(it.name, it.source, it.target) for it in plan.drift]
    clamped = plan_topic_configs(replace(flow, replication_factor=5), state(entries(), entries(), 3, 3), [])
    assert () == clamped.drift
    assert ("replication.factor is 5; copies get 3: B has 3 brokers",) == clamped.notes


def test_planning_changes_nothing(flow):
    """Its inputs are as they were."""
    seen = state(entries(retention_ms="5"), entries(segment_ms="9"))
    before = copy.deepcopy(seen)
    plan_topic_configs(flow, seen, [])
    assert before == seen

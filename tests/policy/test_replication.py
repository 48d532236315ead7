"""Policies answer as MM2's do (ReplicationPolicyTest)."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import ConfigError
from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy, knowing

DEFAULT = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source_alias="A")
T, F = True, False

# fmt: off
VECTORS = [
    # topic, D.source, D.upstream, D.original, heartbeats, internal, I.source, I.upstream, I.remote(A)
    ("topic", None, None, "topic", F, F, "A", "topic", "topic"),
    ("A.topic", "A", "topic", "topic", F, F, "A", "A.topic", "A.topic"),
    ("B.A.topic", "B", "A.topic", "topic", F, F, "A", "B.A.topic", "B.A.topic"),
    ("orders.v1", "orders", "v1", "v1", F, F, "A", "orders.v1", "orders.v1"),
    (".b", "", "b", "b", F, T, "A", ".b", ".b"),
    ("a.", None, None, "a.", F, F, "A", "a.", "a."),
    ("a..b", "a", ".b", "b", F, F, "A", "a..b", "a..b"),
    ("heartbeats", None, None, "heartbeats", T, F, None, None, "A.heartbeats"),
    ("A.heartbeats", "A", "heartbeats", "heartbeats", T, F, "A", "heartbeats", "A.A.heartbeats"),
    ("my-heartbeats", None, None, "my-heartbeats", F, F, None, None, "A.my-heartbeats"),
    ("my.heartbeats", "my", "heartbeats", "heartbeats", T, F, "my", "heartbeats", "A.my.heartbeats"),
    ("A.checkpoints.internal", "A", "checkpoints.internal", "internal", F, T, "A", "same", "same"),
    ("checkpoints.internal", "checkpoints", "internal", "internal", F, F, "A", "same", "same"),
    ("mm2-offsets.A.internal", "mm2-offsets", "A.internal", "internal", F, T, "A", "same", "same"),
    ("mm2-offsets_CLUSTER_internal", None, None, "same", F, F, "A", "same", "same"),
    ("x.internal", "x", "internal", "internal", F, F, "A", "x.internal", "x.internal"),
    ("x-internal", None, None, "x-internal", F, F, "A", "x-internal", "x-internal"),
    ("__consumer_offsets", None, None, "__consumer_offsets", F, T, "A", "same", "same"),
]
# fmt: on


@pytest.mark.parametrize("row", VECTORS, ids=[row[0] for row in VECTORS])
def test_both_policies_answer_the_vector_table(row):
    """Every cell of the table, for the default policy and the identity policy configured with A."""
    topic, source, upstream, original, heartbeats, internal, i_source, i_upstream, i_remote = [
        row[0] if cell == "same" else cell for cell in row
    ]
    assert (source, upstream, original, heartbeats, internal) == (
        DEFAULT.topic_source(topic),
        DEFAULT.upstream_topic(topic),
        DEFAULT.original_topic(topic),
        DEFAULT.is_heartbeats_topic(topic),
        DEFAULT.is_internal_topic(topic),
    )
    assert (i_source, i_upstream, i_remote) == (
        IDENTITY.topic_source(topic),
        IDENTITY.upstream_topic(topic),
        IDENTITY.format_remote_topic("A", topic),
    )
    assert (heartbeats, internal) == (IDENTITY.is_heartbeats_topic(topic), IDENTITY.is_internal_topic(topic))


@pytest.mark.parametrize(
    ("topic", "internal"),
    [
        ("__consumer_offsets", True),
        (".hiddentopic", True),
        ("mm2-offsets.CLUSTER.internal", True),
        ("mm2-offsets_CLUSTER_internal", False),
        ("mm2-offsets-CLUSTER-internal", False),
        ("mm2-offset-map.A.internal", True),
        ("mm2-ledger.A.internal", True),
    ],
)
def test_internal_topics_of_kafka_4(topic, internal):
    """Upstream's ReplicationPolicyTest; dashes were internal up to 3.9 only; our own names pass."""
    assert internal == DEFAULT.is_internal_topic(topic)


@pytest.mark.parametrize(
    ("flag", "syncs", "checkpoints"),
    [
        (False, "mm2-offset-syncs.CLUSTER.internal", "CLUSTER.checkpoints.internal"),
        (True, "mm2-offset-syncs__CLUSTER__internal", "CLUSTER__checkpoints__internal"),
    ],
)
def test_the_internal_separator_follows_its_flag(flag, syncs, checkpoints):
    """KIP-949: with the flag off, internal topics keep their dots whatever the separator."""
    policy = DefaultReplicationPolicy("__", flag)
    assert (syncs, checkpoints, "heartbeats", "A__t") == (
        policy.offset_syncs_topic("CLUSTER"),
        policy.checkpoints_topic("CLUSTER"),
        policy.heartbeats_topic(),
        policy.format_remote_topic("A", "t"),
    )
    assert policy.is_mm2_internal_topic(syncs)
    assert policy.is_checkpoints_topic(checkpoints)


def test_heartbeats_of_another_separator_are_not_recognised():
    """MM2's limitation, kept: it decides which topics a flow takes along."""
    assert not DefaultReplicationPolicy("_").is_heartbeats_topic("us-west.heartbeats")


def test_the_identity_policy_without_an_alias_knows_no_source():
    """As MirrorClient builds it."""
    assert IdentityReplicationPolicy().topic_source("topic") is None


def test_an_empty_separator_splits_characters_as_java_does():
    """`replication.policy.separator=` makes nearly every name look remote; so it does in MM2."""
    policy = DefaultReplicationPolicy("")
    answers = (
        policy.format_remote_topic("A", "t"),
        policy.topic_source("topic"),
        policy.upstream_topic("topic"),
    )
    assert answers == ("At", "t", "opic")
    assert policy.topic_source("t") is None


def test_a_separator_no_topic_name_may_contain_is_refused():
    """It would only fail later, at the first topic creation."""
    with pytest.raises(ConfigError, match="separator"):
        DefaultReplicationPolicy("/")


@given(
    st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True), st.from_regex(r"[a-z0-9._-]{1,20}", fullmatch=True)
)
def test_a_remote_name_gives_back_source_and_topic(alias, topic):
    """topic_source and upstream_topic undo format_remote_topic, unless Java's split sees no second part."""
    remote = DEFAULT.format_remote_topic(alias, topic)
    expected = (alias, topic) if topic.strip(".") else (None, None)
    assert expected == (DEFAULT.topic_source(remote), DEFAULT.upstream_topic(remote))


@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY, DefaultReplicationPolicy("__", False)])
def test_policies_survive_pickling(policy):
    """Policies travel inside settings."""
    assert pickle.loads(pickle.dumps(policy)) == policy


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy(), IdentityReplicationPolicy()])
def test_known_aliases_are_taken_whole_the_longest_first(policy):
    """MM2 takes `us` for the source of `us.east.heartbeats`, so that copies of copies are made for ever."""
    known = knowing(policy, ["us", "us.east", "us.east.1", "eu"])
    names = ["us.east.1.heartbeats", "us.east.heartbeats", "us.heartbeats", "eu.us.east.heartbeats"]
    assert ["us.east.1", "us.east", "us", "eu"] == [known.topic_source(name) for name in names]
    assert ["heartbeats"] * 4 == [known.original_topic(name) for name in names]
    assert "us" == policy.topic_source("us.east.heartbeats")

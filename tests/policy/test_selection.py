"""A flow takes what the filter accepts, and never what is internal or would come back."""

import pytest

from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.policy.selection import NameFilter, cycle_alias, is_internal, why_left_out

EVERYTHING = NameFilter()
DEFAULT = DefaultReplicationPolicy()
IDENTITY = IdentityReplicationPolicy(source_alias="A")


def reason(topic, *, policy=DEFAULT, topics=EVERYTHING, heartbeats=True, cycle_rule="mm2-4.3"):
    return why_left_out(
        topic,
        topics=topics,
        policy=policy,
        source_alias="A",
        target_alias="B",
        heartbeats_replication=heartbeats,
        cycle_rule=cycle_rule,
    )


@pytest.mark.parametrize(
    "topic", ["orders", "orders.v1", "C.orders", "C.D.orders", "x.internal", "heartbeats"]
)
def test_what_is_replicated_has_no_reason(topic):
    """None means: the flow takes it."""
    assert reason(topic) is None


@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", ".hidden", "C.checkpoints.internal", "mm2-offset-syncs.B.internal"]
)
def test_internal_topics_stay(topic):
    """Kafka's, hidden ones and MM2's."""
    assert reason(topic) == "internal topic"


@pytest.mark.parametrize(
    "policy", [DEFAULT, IDENTITY, DefaultReplicationPolicy("_"), DefaultReplicationPolicy("_", False)]
)
@pytest.mark.parametrize(
    "topic",
    [
        "mm2-offset-map.A.internal",
        "mm2-ledger.A.internal",
        "mm2-quarantine.A.internal",
        "mm2-tail.A.orders.internal",
        "mm2-offsets.A.internal",
        "mm2-status.A.internal",
        "mm2-configs.A.internal",
    ],
)
def test_state_topics_stay_whatever_the_separator(policy, topic):
    """They keep their dots, and with another separator the policy's own rule would let them through."""
    assert is_internal(topic, policy)


def test_progress_under_a_name_of_somebodys_own_stays():
    """Two flows that copied each other's would never have copied everything; no filter lets it through."""
    given = {"policy": DEFAULT, "source_alias": "A", "target_alias": "B", "cycle_rule": "mm2-4.3"}
    reasons = [
        why_left_out(it, topics=EVERYTHING, heartbeats_replication=True, progress_topics={"offsets"}, **given)
        for it in ("offsets", "offsets2")
    ]
    assert ["holds the progress of a flow (offset.storage.topic)", None] == reasons


@pytest.mark.parametrize("topic", ["B.orders", "C.B.orders", "D.C.B.orders", "B.heartbeats", "B.metrics"])
def test_whatever_passed_through_the_target_stays(topic):
    """All hops count; a user's own `B.metrics` is left out too, and the reason says by what."""
    assert reason(topic) == "cycle: by its name it came through B"


def test_the_identity_policy_sees_cycles_of_heartbeats_only():
    """Data topics show no hop."""
    assert reason("B.orders", policy=IDENTITY) is None
    assert reason("B.heartbeats", policy=IDENTITY) == "cycle: by its name it came through B"


class Renamed(DefaultReplicationPolicy):
    """An identity-like policy that does not derive from the identity policy."""

    def format_remote_topic(self, source_alias, topic):
        return topic

    def topic_source(self, topic):
        return "A"

    def upstream_topic(self, topic):
        return topic


@pytest.mark.parametrize(
    ("topic", "policy", "rule_4_3", "rule_4_4"),
    [
        ("A.orders", DEFAULT, False, True),
        ("C.A.orders", DEFAULT, False, True),
        ("orders", DEFAULT, False, False),
        ("B.orders", DEFAULT, True, True),
        ("orders", IDENTITY, False, False),
        ("orders", Renamed(), False, True),
    ],
)
def test_the_rule_of_4_4_also_refuses_the_source_alias(topic, policy, rule_4_3, rule_4_4):
    """Except for identity policies, whose every topic names the source."""
    aliases = {"source_alias": "A", "target_alias": "B"}
    assert [rule_4_3, rule_4_4] == [
        cycle_alias(topic, policy=policy, cycle_rule=rule, **aliases) is not None
        for rule in ("mm2-4.3", "mm2-4.4")
    ]


class Circular(DefaultReplicationPolicy):
    """A custom policy with a fault: two names that are each other's upstream."""

    def topic_source(self, topic):
        return "C"

    def upstream_topic(self, topic):
        return {"x": "y", "y": "x"}[topic]


def test_a_policy_that_leads_in_circles_is_no_endless_loop():
    """A hop seen before ends the walk."""
    assert reason("x", policy=Circular()) is None


def test_filters_say_which_list_left_a_topic_out():
    """Not asked for, or asked not to."""
    topics = NameFilter(("orders.*",), ("orders-old",))
    reasons = [reason(topic, topics=topics) for topic in ("orders", "users", "orders-old")]
    assert reasons == [None, "no pattern of topics matches it", "a pattern of topics.exclude matches it"]


def test_heartbeats_pass_the_filter_unless_switched_off():
    """`heartbeats.replication.enabled` lets them by, whatever `topics` says."""
    topics = NameFilter(("orders",))
    assert reason("heartbeats", topics=topics) is None
    assert reason("C.heartbeats", topics=topics) is None
    assert reason("heartbeats", topics=topics, heartbeats=False) == "no pattern of topics matches it"


@pytest.mark.parametrize("patterns", [NameFilter((".*-.*-prod",)), NameFilter((".*",), (".*-.*-prod",))])
def test_a_name_that_would_take_long_to_match_is_left_out_and_says_so(patterns):
    """An application names its groups, with up to 32,767 characters: one held every command for half a minute."""
    name = "-" * 30_000
    assert (False, True) == (patterns.accepts(name), patterns.undecided(name))
    assert "take too long to match it" in reason(name, topics=patterns)


def test_names_are_matched_up_to_a_length():
    """Kafka's topics have 249 characters at most."""
    assert [(True, False), (False, True)] == [
        (EVERYTHING.accepts("-" * length), EVERYTHING.undecided("-" * length)) for length in (1000, 1001)
    ]

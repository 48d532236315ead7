"""What is called as heartbeats are, and what surely holds them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy, knowing
from twinlog.policy.state_topics import is_known_heartbeats

KNOWN = ("A", "B", "eu.west")
DOTS, DASHES, IDENTITY = (
    knowing(policy, KNOWN)
    for policy in (DefaultReplicationPolicy(), DefaultReplicationPolicy("-"), IdentityReplicationPolicy())
)


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        (DOTS, "heartbeats", True),
        (DOTS, "A.heartbeats", True),
        (DOTS, "B.A.heartbeats", True),
        (DOTS, "eu.west.A.heartbeats", True),
        (DOTS, "device.heartbeats", False),
        (DOTS, "A.device.heartbeats", False),
        (DOTS, "device.A.heartbeats", False),
        (DOTS, "C.A.heartbeats", False),
        (DOTS, "my-heartbeats", False),
        (DOTS, "A.heartbeats.heartbeats", False),
        (DASHES, "A-heartbeats", True),
        (DASHES, "A.heartbeats", False),
        (DASHES, "device-heartbeats", False),
        (IDENTITY, "heartbeats", True),
        (IDENTITY, "B.A.heartbeats", True),
        (IDENTITY, "device.heartbeats", False),
        (IDENTITY, "A.my-heartbeats", False),
        (IDENTITY, "orders", False),
    ],
)
def test_every_hop_is_known(policy, topic, expected):
    """Of `device.heartbeats` MM2's rule of suffixes would say that it is one."""
    assert expected is is_known_heartbeats(policy, KNOWN, topic)


@given(st.lists(st.sampled_from(KNOWN), max_size=4), st.sampled_from([DOTS, DASHES, IDENTITY]))
def test_heartbeats_are_known_over_any_number_of_known_hops(hops, policy):
    """Whatever the separator, as the policy itself names them."""
    topic = policy.heartbeats_topic()
    for alias in hops:
        topic = policy.format_remote_topic(alias, topic)
    assert is_known_heartbeats(policy, KNOWN, topic)


@given(
    st.lists(st.sampled_from(KNOWN), max_size=3),
    st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True),
    st.lists(st.sampled_from(KNOWN), max_size=3),
)
def test_one_hop_that_nobody_knows_is_enough(before, stranger, after):
    """Such a topic may be anybody's."""
    topic = DOTS.heartbeats_topic()
    for alias in (*before, stranger, *after):
        topic = DOTS.format_remote_topic(alias, topic)
    assert not is_known_heartbeats(DOTS, KNOWN, topic)


def test_a_policy_that_leads_in_circles_ends():
    """A name that does not get shorter with a hop came over none."""

    class Circles(DefaultReplicationPolicy):
        def upstream_topic(self, topic: str) -> str | None:
            return topic

        def topic_source(self, topic: str) -> str | None:
            return "A"

        def format_remote_topic(self, source_alias: str, topic: str) -> str:
            return topic

    assert not is_known_heartbeats(Circles(), KNOWN, "orders")

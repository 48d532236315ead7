"""A policy is loaded by MM2's class name or by a Python name, and a wrong name is one clear error."""

import sys
from dataclasses import dataclass
from types import ModuleType

import pytest

from twinlog.errors import ConfigError
from twinlog.policy.load import QUESTIONS, policy_from_config
from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy

MM2 = "org.apache.kafka.connect.mirror."


@pytest.mark.parametrize(
    ("class_name", "properties", "expected"),
    [
        (MM2 + "DefaultReplicationPolicy", {}, DefaultReplicationPolicy()),
        (
            f" {MM2}DefaultReplicationPolicy ",
            {"replication.policy.separator": "__"},
            DefaultReplicationPolicy("__", True),
        ),
        (
            MM2 + "DefaultReplicationPolicy",
            {
                "replication.policy.separator": "__",
                "replication.policy.internal.topic.separator.enabled": "False",
            },
            DefaultReplicationPolicy("__", False),
        ),
        (
            # The flag alone is never looked at.
            MM2 + "DefaultReplicationPolicy",
            {"replication.policy.internal.topic.separator.enabled": "false"},
            DefaultReplicationPolicy(),
        ),
        (MM2 + "IdentityReplicationPolicy", {}, IdentityReplicationPolicy(source_alias="A")),
        (
            "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
            {},
            IdentityReplicationPolicy(source_alias="A"),
        ),
        (
            "twinlog.policy.replication:IdentityReplicationPolicy",
            {},
            IdentityReplicationPolicy(source_alias="A"),
        ),
        ("twinlog.policy.replication.DefaultReplicationPolicy", {}, DefaultReplicationPolicy()),
    ],
)
def test_a_named_class_becomes_a_policy(class_name, properties, expected):
    """Java names of MM2 and Strimzi, and Python names in both spellings."""
    assert expected == policy_from_config(class_name, properties, "A")


@dataclass(frozen=True)
class Underscore(DefaultReplicationPolicy):
    """A custom policy the short way: built without arguments."""

    from_properties = None

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}_{topic}"


class Half:
    """Not a policy: answers one question only."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic


class Broken(DefaultReplicationPolicy):
    @classmethod
    def from_properties(cls, properties, source_alias):
        raise ValueError("no region")


@pytest.fixture(autouse=True)
def custom_module(monkeypatch):
    module = ModuleType("acme_policies")
    module.Underscore, module.Half, module.Broken, module.value = Underscore, Half, Broken, 7
    monkeypatch.setitem(sys.modules, "acme_policies", module)


def test_a_custom_policy_needs_no_from_properties():
    """Without one the class is built with no arguments."""
    assert policy_from_config("acme_policies.Underscore", {}, "A").format_remote_topic("A", "t") == "A_t"


@pytest.mark.parametrize(
    ("class_name", "words"),
    [
        ("", "is not a class name"),
        ("Policy", "is not a class name"),
        ("com.acme.KafkaPolicy", "cannot be imported"),
        ("acme_policies.Missing", "does not exist in acme_policies"),
        ("acme_policies.value", "is not a class"),
        ("acme_policies.Half", "does not answer checkpoints_topic"),
        ("acme_policies.Broken", "no region"),
    ],
)
def test_a_name_that_is_no_policy_is_a_clear_error(class_name, words):
    """The error names key and value."""
    with pytest.raises(ConfigError) as refused:
        policy_from_config(class_name, {}, "A")
    assert words in refused.value.message
    assert {"key": "replication.policy.class", "value": class_name} == refused.value.data


def test_a_flag_that_is_no_boolean_is_a_clear_error():
    """MM2 would take it for false."""
    properties = {
        "replication.policy.separator": "_",
        "replication.policy.internal.topic.separator.enabled": "yes",
    }
    with pytest.raises(ConfigError, match="not a boolean"):
        policy_from_config(MM2 + "DefaultReplicationPolicy", properties, "A")


def test_every_question_of_the_protocol_is_checked():
    """The list is taken from the protocol, so it cannot fall behind."""
    assert len(QUESTIONS) == 11

"""The topics named with --topic."""

import pytest

from twinlog.cli.options import parse_topics
from twinlog.errors import UsageError
from twinlog.topics.discovery import DiscoveredTopic, Discovery, LeftOut, refuse_unknown_topics

DISCOVERY = Discovery(
    flow="A->B",
    source_cluster_id="a",
    target_cluster_id="b",
    target_brokers=1,
    topics=(DiscoveredTopic("orders", "id", "A.orders", 1, (), None),),
    left_out=(LeftOut("audit", "no pattern of topics matches it"),),
    problems=(),
)


@pytest.mark.parametrize(
    ("named", "names"),
    [
        (None, None),
        ([""], None),
        ([" , "], None),
        (["a"], {"a"}),
        (["a, b,,a"], {"a", "b"}),
        (["a", "b"], {"a", "b"}),
    ],
)
def test_names_are_separated_by_commas_or_repeated(named: list[str] | None, names: set[str] | None) -> None:
    """No name means all topics."""
    assert parse_topics(named) == names


def test_topics_of_the_flow_are_accepted() -> None:
    """Nothing is raised for all topics, or for one of them."""
    refuse_unknown_topics(DISCOVERY, None)
    refuse_unknown_topics(DISCOVERY, frozenset({"orders"}))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("audit", "no pattern of topics matches it"),
        ("order", "the source has no such topic, or does not show it"),
    ],
)
def test_a_topic_that_is_not_replicated_is_refused_with_the_reason(name: str, reason: str) -> None:
    """A typo never means that nothing is copied, silently."""
    with pytest.raises(UsageError) as caught:
        refuse_unknown_topics(DISCOVERY, frozenset({"orders", name}))
    assert caught.value.message == f"flow A->B does not replicate topic {name}: {reason}"

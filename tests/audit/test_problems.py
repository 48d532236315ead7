"""What an audit says of partitions it cannot look at."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.audit.plan import plan
from twinlog.audit.problems import AuditState
from twinlog.audit.request import AuditRequest
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps
from twinlog.topics.discovery import (
    DiscoveredPartition,
    DiscoveredTopic,
    Discovery,
    Problem,
    ProblemCode,
    RemoteTopic,
)

FLOW = FlowSettings(*(ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "AB"))
MAP = OffsetMap.of([MapSegment(0, 10, (Extent(0, 0, 10),))])
MARKERS = OffsetMap.of([MapSegment(0, 10, ())])
"""Ten offsets of the source without a record to copy."""
LOG, EXPIRED, ANEW = PartitionOffsets(0, 11, 11), PartitionOffsets(11, 11, 11), PartitionOffsets(0, 0, 0)


def state(
    targets: dict[int, PartitionOffsets | None],
    *,
    maps: dict[int, OffsetMap],
    copied: set[int],
    remote: int = 2,
    problems: tuple[Problem, ...] = (),
) -> AuditState:
    """A topic of two partitions; `targets` are the copies of those the source says the offsets of."""
    partitions = tuple(
        DiscoveredPartition("t", "id", number, LOG, target) for number, target in targets.items()
    )
    topic = DiscoveredTopic("t", "id", "A.t", 2, partitions, RemoteTopic("rid", remote))
    known = {SourceIncarnation("t", "id", number): it for number, it in maps.items()}
    return AuditState(
        Discovery("A->B", "a", "b", 1, (topic,), (), problems),
        Ledger(),
        Maps(known, {}),
        {TopicPartition("t", it): 9 for it in copied},
        dict.fromkeys(known, 10),
        (),
    )


def found(it: AuditState, request: AuditRequest | None = None) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in plan(FLOW, it, request or AuditRequest()).problems]


def test_all_that_was_copied_is_looked_at():
    """Then nothing stands against it."""
    assert [] == found(state({0: LOG, 1: LOG}, maps={0: MAP, 1: MAP}, copied={0, 1}))
    assert [] == found(state({0: LOG, 1: LOG}, maps={0: MAP}, copied={0})), "1 is not copied yet"


def test_a_partition_that_the_source_does_not_tell_of():
    """Its other partitions are compared, and it is not called equal."""
    no = Problem(ProblemCode.PARTITION_UNAVAILABLE, "t", "offsets of 1 partition(s) of t cannot be read", "")
    seen = state({0: LOG}, maps={0: MAP, 1: MAP}, copied={0, 1}, problems=(no,))
    assert [("partition-unavailable", no.message)] == found(seen)
    assert [0] == [it.life.partition for it in plan(FLOW, seen, AuditRequest()).partitions]


@pytest.mark.parametrize(
    ("target", "remote", "maps", "expected"),
    [
        (None, 2, {0: MAP, 1: MAP}, ("partition-unavailable", "the offsets of A.t-1, the copy of t-1,")),
        (None, 1, {0: MAP, 1: MAP}, ("copy-deleted", "A.t-1, the copy of t-1, does not exist")),
        (LOG, 2, {0: MAP}, ("no-map", "t-1 was copied, but no offset map says where to")),
        (ANEW, 2, {0: MAP}, ("no-map", "t-1 was copied, but no offset map says where to")),
    ],
)
def test_a_copy_that_cannot_be_looked_at(target, remote, maps, expected):
    """One problem that names it."""
    ((code, message),) = found(state({0: LOG, 1: target}, maps=maps, copied={0, 1}, remote=remote))
    assert expected[0] == code
    assert message.startswith(expected[1])


def test_a_copy_of_which_nothing_is_left_is_no_problem():
    """It has expired, or there was never a record in it."""
    assert [] == found(state({0: LOG, 1: EXPIRED}, maps={0: MAP}, copied={0, 1}))
    assert [] == found(state({0: LOG, 1: LOG}, maps={0: MAP, 1: MARKERS}, copied={0, 1}))


def test_a_topic_that_the_source_hides_was_not_looked_at():
    """As long as the flow still selects it, and the audit was asked for it."""
    no = Problem(ProblemCode.SOURCE_REFUSED, "secret", "no", "grant DESCRIBE")
    seen = state({0: LOG, 1: LOG}, maps={0: MAP, 1: MAP}, copied={0, 1}, problems=(no,))
    assert [] == found(seen), "nothing of it was copied"
    seen = dataclasses.replace(seen, progress={**seen.progress, TopicPartition("secret", 0): 3})
    assert [("source-refused", "no")] == found(seen)
    assert [] == found(seen, AuditRequest(topics=frozenset({"t"})))
    left_out = dataclasses.replace(no, topic="__secret")
    other = dataclasses.replace(
        seen,
        discovery=dataclasses.replace(seen.discovery, problems=(left_out,)),
        progress={**seen.progress, TopicPartition("__secret", 0): 3},
    )
    assert [] == found(other)


@given(
    st.dictionaries(st.integers(0, 1), st.sampled_from([None, LOG, EXPIRED, ANEW])),
    st.sets(st.integers(0, 1)),
    st.sets(st.integers(0, 1), min_size=1),
    st.integers(1, 2),
)
def test_what_was_copied_is_compared_or_a_problem(
    targets: dict[int, PartitionOffsets | None], mapped: set[int], copied: set[int], remote: int
) -> None:
    """Whatever can be seen of a partition; only of an expired copy there is nothing to say."""
    unread = {0, 1} - set(targets)
    no = tuple(Problem(ProblemCode.PARTITION_UNAVAILABLE, "t", f"t-{it}") for it in unread)
    seen = state(targets, maps=dict.fromkeys(mapped, MAP), copied=copied, remote=remote, problems=no)
    decided = plan(FLOW, seen, AuditRequest())
    compared = {it.life.partition for it in decided.partitions}
    for number in copied - compared:
        assert targets.get(number) == EXPIRED or any(
            f"t-{number}" in it.message or it.message.startswith("partitions") for it in decided.problems
        )


def test_a_flow_that_passed_over_all_it_saw_has_a_map():
    """A map that says of every offset why it was passed over stands against nothing."""
    seen = state({0: LOG, 1: LOG}, maps={0: MARKERS, 1: MARKERS}, copied={0, 1})
    assert ["nothing-copied"] == [code for code, _ in found(seen)]


def test_a_map_without_records_that_lost_a_part():
    """Records may have been there: the map ends where something more was copied."""
    seen = state({0: LOG, 1: LOG}, maps={0: MAP, 1: MARKERS}, copied={0, 1})
    seen = dataclasses.replace(seen, progress={**seen.progress, TopicPartition("t", 1): 14})
    ((code, message),) = found(seen)
    assert ("map-lost", True) == (code, "upstream offsets 10 to 14 were copied" in message)

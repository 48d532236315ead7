"""What is decided about topics, from states made by hand."""

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.values import Answers, PartitionDescription, TopicDescription
from twinlog.formats.ledger.topics import Incarnation
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import Discovery, LeftOut, ProblemCode, SourceState, TargetState
from twinlog.topics.discovery_rules import decide
from twinlog.topics.same_log import Witness

NAMES = st.lists(st.text("ab.-", min_size=1, max_size=4), unique=True, max_size=6).map(tuple)


def decided(
    flow, names: tuple[str, ...], on_target: tuple[str, ...] = (), left_out: tuple[str, ...] = ()
) -> Discovery:
    """A decision about clusters of which only the names of topics are known."""
    reasons = tuple(LeftOut(it, "no pattern matches it") for it in left_out)
    source = SourceState("a", names, reasons, Answers({}, {}), Answers({}, {}))
    target = TargetState("b", 1, Answers({}, {}), Answers({}, {}), on_target)
    return decide(flow, source, target, Ledger())


class TestTopicsWithoutIds:
    """A source before 2.8: `topics.same_log` says which of its topics hold other records than were copied."""

    def decided(self, flow, known_id: str, seen_id: str, **others: Witness) -> Discovery:
        topics = {"orders": TopicDescription("orders", seen_id, (PartitionDescription(0, 1, (1,)),))}
        source = SourceState("a", ("orders",), (), Answers(topics, {}), Answers({}, {}))
        target = TargetState("b", 1, Answers({}, {}), Answers({}, {}), ())
        life = Incarnation("orders", known_id, 1, "A.orders")
        return decide(flow, source, target, Ledger(incarnations={"orders": life}), others)

    @pytest.mark.parametrize(
        ("known_id", "seen_id", "expected"),
        [("", "", ""), ("", "new", ""), ("old", "", "old"), ("old", "old", "old"), ("old", "new", "new")],
    )
    def test_state_stays_under_the_ledgers_id(self, flow, known_id: str, seen_id: str, expected: str):
        """An upgraded source gives its topics ids; what was copied before is still found under none."""
        (topic,) = self.decided(flow, known_id, seen_id).topics
        assert expected == topic.topic_id

    def test_a_topic_with_other_records_stops(self, flow):
        """Its problem names the record; no policy decides about it."""
        found = self.decided(flow, "", "", orders=Witness(0, 5, 7))
        (problem,) = (it for it in found.problems if it.code is ProblemCode.OTHER_LOG)
        assert (True, "orders") == (problem.blocking, problem.topic)
        assert "orders-0 on A has another record at upstream offset 5" in problem.message
        assert [True] == [it.blocked for it in found.topics]


@given(included=NAMES, names=NAMES)
def test_a_name_is_missing_when_it_matches_no_topic_as_the_pattern_it_is(base_flow, included, names):
    """A dot stands for any character: `a.b` is there when `a-b` is, and `a.` is a pattern."""
    plain = [it for it in included if re.fullmatch(r"[\w.-]*\w", it)]
    expected = {it for it in plain if not any(re.fullmatch(it, name) for name in names)}
    found = decided(replace(base_flow, topics=NameFilter(included)), names).problems
    missing = {it.topic for it in found if it.code is ProblemCode.NO_SUCH_TOPIC}
    assert expected == missing & set(plain)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("heartbeats", "orders"), ["odrers.*"]),
        (("orders",), ["odrers.*"]),
        ((), ["odrers.*"]),
        (("odrers.eu", "orders"), []),
    ],
)
def test_patterns_that_select_nothing_are_named(flow, names, expected):
    """A flow of heartbeats alone looks as if all were well: nothing lags, and all of it is equal."""
    flow = replace(flow, topics=NameFilter(("odrers.*",)))
    found = decided(flow, names, left_out=("orders",)).problems
    assert expected == [it.topic for it in found]
    assert all("A shows no topic that A->B.topics selects (odrers.*)" in it.message for it in found)


def test_thousands_of_names_are_looked_up(flow):
    """A decision about 6,000 names, all of them copied, takes some hundredths of a second, not their square."""
    names = tuple(f"eu.orders-{n}" for n in range(6_000))
    flow = replace(flow, topics=NameFilter(names))
    began = time.process_time()
    decision = decided(flow, names, tuple(f"A.{name}" for name in names))
    spent = time.process_time() - began
    assert ((), ()) == (decision.problems, decision.orphans)
    assert spent < 1

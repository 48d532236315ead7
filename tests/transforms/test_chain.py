"""A chain of transforms: what it makes of a record, which topics it concerns, when two chains are the same."""

from __future__ import annotations

from twinlog.transforms.chain import (
    Chain,
    DropHeaders,
    Filter,
    HasHeaderKey,
    RecordIsTombstone,
    Step,
    TopicNameMatches,
)

NO_TOMBSTONES = Step(Filter(), RecordIsTombstone())
NO_TRACES = Step(DropHeaders(("trace",)))


class TestKept:
    def test_each_step_sees_what_the_one_before_left(self) -> None:
        """A header that was dropped is no longer found by a later predicate."""
        chain = Chain((NO_TRACES, Step(Filter(), HasHeaderKey("trace"))))
        expected = (1,)
        assert expected == chain.kept(False, ["trace", "x", "trace"])

    def test_a_predicate_decides_whether_a_step_applies(self) -> None:
        """Tombstones are dropped, others are not."""
        chain = Chain((NO_TOMBSTONES,))
        assert (chain.kept(True, ["a"]), chain.kept(False, ["a"])) == (None, (0,))

    def test_negate_turns_a_predicate_around(self) -> None:
        """Only records with the header are left."""
        chain = Chain((Step(Filter(), HasHeaderKey("keep"), negate=True),))
        assert (chain.kept(False, ["keep"]), chain.kept(False, ["Keep"])) == ((0,), None)

    def test_a_filter_without_predicate_drops_everything(self) -> None:
        """As Connect's does."""
        assert Chain((Step(Filter()),)).kept(False, []) is None


class TestOf:
    def test_a_topic_that_no_step_concerns_has_an_empty_chain(self) -> None:
        """Its batches are copied unread."""
        step = Step(Filter(), TopicNameMatches("A\\.orders.*"))
        chain = Chain((step,))
        assert (chain.of("A.stock"), chain.of("A.orders-1")) == (
            Chain(),
            Chain((Step(Filter()),)),
        )

    def test_a_pattern_has_to_match_the_whole_name(self) -> None:
        """Java's matches, not find."""
        assert not Chain((Step(Filter(), TopicNameMatches("orders")),)).of("A.orders")

    def test_negate_counts(self) -> None:
        """A step for all other topics."""
        chain = Chain((Step(DropHeaders(("x",)), TopicNameMatches("A\\.a"), negate=True),))
        assert (chain.of("A.a"), chain.of("A.b")) == (Chain(), Chain((Step(DropHeaders(("x",))),)))

    def test_nothing_follows_a_filter_that_drops_everything(self) -> None:
        """The rest of the chain makes no difference, so it does not count as another chain."""
        assert Chain((Step(Filter()), NO_TRACES)).of("t") == Chain((Step(Filter()),))


class TestPrint:
    def test_the_order_of_names_makes_no_other_chain(self) -> None:
        """Headers are dropped by name, in any order."""
        one, other = (Chain((Step(DropHeaders(names)),)) for names in (("a", "b"), ("b", "a")))
        assert one.print == other.print

    def test_chains_that_do_other_things_have_other_prints(self) -> None:
        """Transform, predicate, its parameter, negate and order count; "" is no chain."""
        chains = [
            Chain(),
            Chain((NO_TOMBSTONES,)),
            Chain((NO_TRACES,)),
            Chain((NO_TRACES, NO_TOMBSTONES)),
            Chain((NO_TOMBSTONES, NO_TRACES)),
            Chain((Step(Filter(), RecordIsTombstone(), negate=True),)),
            Chain((Step(Filter(), HasHeaderKey("a")),)),
            Chain((Step(Filter(), HasHeaderKey("b")),)),
            Chain((Step(Filter()),)),
        ]
        assert ("", len(chains)) == (chains[0].print, len({it.print for it in chains}))

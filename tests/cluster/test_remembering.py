"""Asked once: what a cluster that remembers asks again, and what it does not."""

from fake_cluster import FakeCluster

from twinlog.cluster.open import Clusters
from twinlog.cluster.remembering import Remembering, remembering
from twinlog.cluster.values import InternalRecord, NewTopic


class Counted(FakeCluster):
    """A cluster, and how often it was asked for its brokers."""

    asked = 0

    def broker_count(self) -> int:
        self.asked += 1
        return super().broker_count()


def counted() -> tuple[Counted, Remembering]:
    cluster = Counted("A")
    cluster.create_topics([NewTopic("t", 2, 1), NewTopic("u", 1, 1)])
    return cluster, Remembering(cluster)


def test_the_same_is_asked_once_and_answered_as_the_cluster_does() -> None:
    """Also item by item: only what is new is asked for."""
    cluster, remembered = counted()
    assert cluster.topic_names() == remembered.topic_names() == remembered.topic_names()
    assert cluster.describe_topics(["t"]) == remembered.describe_topics(["t"])
    assert cluster.describe_topics(["t", "u"]) == remembered.describe_topics(iter(["t", "u"]))
    assert cluster.describe_topics(["u"]).found == remembered.describe_topics(["u"]).found
    assert cluster.alias == remembered.alias


def test_a_refusal_is_asked_again() -> None:
    """What does not exist now may exist a moment later."""
    cluster, remembered = counted()
    assert list(remembered.describe_topics(["new"]).refused) == ["new"]
    cluster.create_topics([NewTopic("new", 1, 1)])
    assert list(remembered.describe_topics(["new"]).found) == ["new"]


def test_a_change_makes_it_forget() -> None:
    """A topic made through it is among the names."""
    _, remembered = counted()
    before = remembered.topic_names()
    remembered.create_topics([NewTopic("new", 1, 1)])
    assert [*before, "new"] == sorted(remembered.topic_names(), key=lambda it: it == "new")


def test_what_moves_is_not_remembered() -> None:
    """The state topics are written by others, too."""
    cluster, remembered = counted()
    cluster.produce("u", [InternalRecord(b"k", b"1", 0)])
    first = dict(remembered.latest("u"))
    cluster.produce("u", [InternalRecord(b"k", b"2", 0)])
    assert (b"1", b"2") == (first[b"k"], remembered.latest("u")[b"k"])


def test_both_clusters_of_a_flow_remember() -> None:
    """Until the context ends."""
    cluster, _ = counted()
    with remembering(Clusters(cluster, cluster)) as both:
        assert both.source.broker_count() == both.source.broker_count()
        assert both.target.broker_count() == both.target.broker_count()
    assert (2, 1) == (cluster.asked, cluster.broker_count())

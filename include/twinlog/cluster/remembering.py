"""Remember a cluster's answers, so that steps of one process ask its brokers only once.

Steps stay as they are: each learns from the clusters what there is, and can be run by itself. Only a caller that runs
several of them in a row within one process, with no change in between, gives them this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from twinlog.cluster.api import Cluster
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import Answers

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

WHOLE = frozenset({"cluster_id", "broker_count", "topic_names"})
"""Questions without arguments."""

BY_ITEM = frozenset({"describe_topics", "topic_configs", "offsets"})
"""Questions about many items: the answer for each item is remembered, refusals are not."""

CHANGES = frozenset({
    "create_topics",
    "create_partitions",
    "produce",
    "alter_offsets",
    "delete_groups",
    "delete_records",
    "delete_topics",
    "alter_topic_configs",
    "create_acls",
    "delete_acls",
    "alter_quotas",
    "upsert_scram_users",
})
"""Before one of these is called, all answers are forgotten."""


class Remembering:
    """Stands for a Cluster; methods that it does not name are the cluster's own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._whole: dict[str, Any] = {}
        self._by_item: dict[str, dict[Any, Any]] = {}

    @property
    def fresh(self) -> Cluster:
        """The real cluster, which remembers nothing."""
        return self._cluster

    def forget(self) -> None:
        """Forget all answers, and ask anew from now on."""
        self._whole.clear()
        self._by_item.clear()

    def __getattr__(self, verb: str) -> Any:
        asked = getattr(self._cluster, verb)
        if verb in WHOLE:
            return lambda: self._answer(verb, asked)
        if verb in BY_ITEM:
            return lambda items: self._answers(self._by_item.setdefault(verb, {}), asked, items)
        if verb in CHANGES:
            self.forget()
        return asked

    def _answer(self, verb: str, asked: Callable[[], Any]) -> Any:
        if verb not in self._whole:
            self._whole[verb] = asked()
        return self._whole[verb]

    @staticmethod
    def _answers(
        known: dict[K, V], asked: Callable[[Iterable[K]], Answers[K, V]], items: Iterable[K]
    ) -> Answers[K, V]:
        wanted = list(dict.fromkeys(items))
        missing = [item for item in wanted if item not in known]
        new = asked(missing) if missing else Answers({})
        known |= new.found
        return Answers({item: known[item] for item in wanted if item in known}, new.refused)


@contextmanager
def remembering(clusters: Clusters) -> Iterator[Clusters]:
    """Yield the two clusters of a flow, each asked the same only once while the context is open."""
    both = Remembering(clusters.source), Remembering(clusters.target)
    yield Clusters(*(cast(Cluster, one) for one in both))

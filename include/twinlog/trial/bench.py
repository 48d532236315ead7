"""Hold one cluster of a trial, with all that the parts of the trial hand on to each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ClusterSettings
from twinlog.kafka_types import TopicPartition
from twinlog.lane.in_flight import Written
from twinlog.lane.producer import Lane
from twinlog.protocol.brokers import Brokers
from twinlog.trial.values import Answer, Without


@dataclass(slots=True)
class Bench:
    """One cluster in a trial; `scratch` and `group` are the topic and the group that it may make there.

    `topic` is the scratch topic once it is made, until then one of the flow's to read, or "".  `answers` are those to
    the parts so far; `silent` says that the cluster does not answer, "" if it does.  `lane` writes in transactions,
    `written` is what it committed; `placed` (downstream) is where the group stands.
    """

    flow: FlowSettings
    settings: ClusterSettings
    cluster: Cluster
    brokers: Brokers
    scratch: str
    group: str
    topic: str
    answers: dict[str, Answer] = field(default_factory=dict)
    silent: str = ""
    lane: Lane = field(init=False)
    written: list[Written] = field(default_factory=list)
    placed: int = 0

    @property
    def at(self) -> TopicPartition:
        """The partition that is written and read."""
        return TopicPartition(self.topic, 0)


@dataclass(frozen=True, slots=True)
class Part:
    """Something to try: `do` returns figures, if there are any, and raises the cluster's refusal.

    It is not tried if a part that it comes `after` did not work, or the flow has no use for it or nothing to try.
    """

    name: str
    without: Without
    do: Callable[[Bench], str | None]
    after: tuple[str, ...] = ()
    useful: Callable[[Bench], bool] = lambda _: True

"""Send one cluster each request of a flow that changes nothing, and tell which are refused.

Rights (`twinlog.cluster.permissions.rights`) are what an authorizer says.  Managed clusters refuse requests whatever
it says, and old ones do not have them: that shows only if they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.permissions.requests import USES, Use
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.leader_epochs import ReadUpTo


@dataclass(frozen=True, slots=True)
class Sample:
    """Names that exist on a cluster, for questions that need one; "" for none."""

    topic: str = ""
    group: str = ""

    @property
    def partition(self) -> TopicPartition:
        """The first partition of the topic."""
        return TopicPartition(self.topic, 0)


@dataclass(frozen=True, slots=True)
class RefusedUse:
    """A request that a cluster refuses, and what it said."""

    use: Use
    why: str

    def told(self, alias: str) -> str:
        """Say it in one line."""
        what = f"{alias} refuses {self.use.name}, which is needed to {self.use.needed_to}"
        return f"{what}; without it {self.use.cost.value}: {self.why}"


def refused_requests(
    flow: FlowSettings, cluster: ClusterReader, connection: ConnectionSettings, side: str, sample: Sample
) -> Iterator[RefusedUse]:
    """Yield the requests that this flow sends to a side, and that the cluster there does not offer or denies.

    Raises ClusterUnreachable, and ClusterRefused for a cluster that cannot be asked anything.
    """
    with Brokers(connection) as brokers:
        offered = frozenset(it.key for it in USES if brokers.any_broker().offers(it.key) >= 0)
    for use in needed(flow, side):
        if use.key not in offered:
            yield RefusedUse(use, "its brokers do not offer it")
        elif (ask := QUESTIONS.get(use.key)) is not None:
            try:
                ask(cluster, sample)
            except ClusterRefused as error:
                if error.code != "no-authorizer":
                    yield RefusedUse(use, error.message)


def needed(flow: FlowSettings, side: str) -> Sequence[Use]:
    """Return the requests whose lack costs this flow something.  Pure."""
    return [use for use in USES if use.side == side and use.cost.matters(flow)]


def _offsets(cluster: ClusterReader, sample: Sample) -> None:
    if sample.topic:
        cluster.offsets([sample.partition]).require()


def _first_record(cluster: ClusterReader, sample: Sample) -> None:
    if sample.topic:
        cluster.record_prints(sample.partition, 0, 1)


def _positions(cluster: ClusterReader, sample: Sample) -> None:
    if sample.group:
        cluster.committed_offsets([sample.group]).require()


def _configs(cluster: ClusterReader, sample: Sample) -> None:
    if sample.topic:
        cluster.topic_configs([sample.topic]).require()


def _epochs(cluster: ClusterReader, sample: Sample) -> None:
    at = sample.partition
    if sample.topic and at not in cluster.epoch_ends({at: ReadUpTo(0, 1)}):
        raise ClusterRefused(f"it does not answer for {at.topic}-{at.partition}", cluster=cluster.alias)


QUESTIONS: Mapping[int, Callable[[ClusterReader, Sample], object]] = {
    1: _first_record,
    2: _offsets,
    9: _positions,
    16: lambda cluster, _: cluster.groups(),
    23: _epochs,
    29: lambda cluster, _: cluster.describe_acls(),
    32: _configs,
    35: lambda cluster, _: cluster.log_dirs(),
    48: lambda cluster, _: cluster.describe_quotas(),
}
"""By api key; each raises ClusterRefused if the cluster refuses.  What writes is asked for its rights instead."""

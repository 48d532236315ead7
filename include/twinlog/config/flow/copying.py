"""The settings of the copy: how records are written, and what if a source topic is deleted, recreated or shortened."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from twinlog.config.file.keys import Kind
from twinlog.config.flow.values import (
    DELETE_AFTER,
    MASTER,
    POSITIVE_INT,
    POSITIVE_LONG,
    Compression,
    Isolation,
    OffsetReset,
    choice,
    chosen,
    optional,
    setting,
    whole,
)


class PoisonPolicy(StrEnum):
    """Name how to handle a record that the target cannot hold (`twinlog.on.poison.record`)."""

    FAIL = "fail"
    QUARANTINE = "quarantine"


class RecreatedPolicy(StrEnum):
    """Name how to handle a source topic that was deleted and created again (`twinlog.on.recreated`)."""

    FAIL = "fail"
    NEW_INCARNATION = "new-incarnation"
    APPEND = "append"


class GapPolicy(StrEnum):
    """Name how to handle upstream offsets that are gone before they were copied (`twinlog.on.gap`)."""

    FAIL = "fail"
    RECORD_AND_CONTINUE = "record-and-continue"


@dataclass(frozen=True, slots=True)
class CopySettings:
    """Tell how the copy works.

    One default differs from MM2's: records of aborted transactions are not copied (`read_committed`; MM2 reads
    uncommitted).  `lanes` None: the amount of work decides.
    """

    lanes: int | None = setting(optional(Kind.INT), "twinlog.lanes", None)
    """transactional writers at once; default: one for each 256 MiB there is to copy, at most as many as the Spark job
    has slots. A followed flow never has more than its share of the slots"""
    transaction_bytes: int = setting(whole(Kind.LONG, 1024), "twinlog.transaction.bytes", "67108864")
    """bytes after which a lane commits"""
    transaction_timeout_ms: int = setting(whole(Kind.INT, 1000), "twinlog.transaction.timeout.ms", "60000")
    """ms that a dead lane can hold up read_committed readers; a lane commits after 2/3 of it, ten seconds at most"""
    fetch_bytes: int = setting(POSITIVE_INT, "twinlog.fetch.bytes", "16777216")
    """bytes of one fetch from the source"""
    partition_fetch_bytes: int = setting(POSITIVE_INT, "twinlog.partition.fetch.bytes", "4194304")
    """bytes of one partition in a fetch; more if few [urgent ones](operations.md#after-an-outage) are behind"""
    read_committed: bool = setting(
        chosen(Isolation.READ_COMMITTED), "consumer.isolation.level", "read_committed"
    )
    """`read_committed`: records of aborted transactions are not copied; `read_uncommitted`: MM2's default"""
    start_from_latest: bool = setting(chosen(OffsetReset.LATEST), "consumer.auto.offset.reset", "earliest")
    """where a partition without progress starts: `earliest` or `latest`"""
    poison: PoisonPolicy = setting(choice(PoisonPolicy), "twinlog.on.poison.record", "fail")
    """a record that the target cannot hold: `fail`, or `quarantine` (written aside to
    `mm2-quarantine.<source>.internal`: [chaos.md](chaos.md#poisonous-records))"""
    compression: Compression = setting(choice(Compression), "twinlog.compression.type", "producer")
    """the codec of copied batches: `producer` leaves each as it is; `zstd`, `lz4`, `gzip` or `snappy` compresses in the
    lanes what becomes smaller by it, for a thin line to the target ([its
    price](performance.md#compressing-on-the-way))"""
    bytes_per_second: int | None = setting(optional(Kind.LONG), "twinlog.bytes.per.second", None)
    """bytes that all lanes of the flow together may send in a second, batch headers included; default: no limit. A
    followed flow then has one lane, unless `twinlog.lanes` says more"""
    spark_master: str = setting(MASTER, "twinlog.spark.master", "auto")
    """Spark master of the copy: `local[N]`, `spark://...`, or a Connect server `sc://...`; `auto` is the warm server of
    `twinlog machine spark start` if it answers and is of this build, else `local[2]`
    ([operations](operations.md#a-warm-spark)); who else is let in there:
    [security](security.md#spark-what-travels-where). `yarn` and `k8s://...` are handed to Spark as they are
    ([what was tried](howto/spark-clusters.md#yarn-and-kubernetes))"""
    follow_seconds: int = setting(POSITIVE_LONG, "twinlog.follow.seconds", "60")
    """how often follow mode (`twinlog run --for`, a continuous Dag) looks for new topics and partitions, tries
    partitions with errors again, and assigns partitions anew when one lane stays overloaded while another could take
    more; when nothing has changed the copy just goes on"""

    @property
    def run_seconds(self) -> int:
        """Return the seconds between the starts of two runs of a continuous Dag; each run is reported once."""
        return 15 * self.follow_seconds

    @property
    def longest_run_seconds(self) -> int:
        """Return how long such a run follows at most: until the second one after it, which has 5 minutes to begin."""
        return 2 * self.run_seconds + 300

    @property
    def transaction_ms(self) -> int:
        """Return the ms after which a lane commits: ten seconds, or less if the time-out is short."""
        return min(10_000, self.transaction_timeout_ms * 2 // 3)


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """Tell how to handle topics that are deleted, recreated or lose records (docs/topics.md); None keeps them."""

    on_recreated: RecreatedPolicy = setting(choice(RecreatedPolicy), "twinlog.on.recreated", "fail")
    """a source topic was deleted and created again: `fail` (that topic stops), `new-incarnation` (its copy is deleted
    and rebuilt), or `append` (the new records go behind the old ones); see [topics](topics.md)"""
    on_gap: GapPolicy = setting(choice(GapPolicy), "twinlog.on.gap", "fail")
    """the source no longer has records that were not copied: `fail` (that partition stops in front of them), or
    `record-and-continue` (noted in the ledger, copying goes on behind them)"""
    delete_after_ms: int | None = setting(DELETE_AFTER, "twinlog.on.deleted", "keep")
    """a source topic was deleted: `keep` its copy, or delete it when the topic has been gone for this time:
    `delete-after:7d` (also `m`, `h`)"""

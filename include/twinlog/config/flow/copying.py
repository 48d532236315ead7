"""The settings of the copy path: our `twinlog.*` keys, and the few consumer properties that affect it."""

from __future__ import annotations

import re
from enum import StrEnum

from twinlog.config.flow.reader import Reader
from twinlog.config.flow.settings import CopySettings, Guarantee, PoisonPolicy

MIN_TRANSACTION_BYTES = 1024
SPARK_MASTER = re.compile(r"local(\[.+\])?|spark://.+|sc://.+|k8s://.+|yarn")
MASTERS = "such as local[2], spark://host:7077 or sc://host:15002"


class _Isolation(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class _Reset(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


def copy_settings(read: Reader) -> CopySettings:
    """Return the copy settings of a flow."""
    settings = CopySettings(
        guarantee=read.choice("twinlog.guarantee", Guarantee),
        lanes=read.optional_integer("twinlog.lanes", at_least=1),
        transaction_bytes=read.integer("twinlog.transaction.bytes", at_least=MIN_TRANSACTION_BYTES),
        transaction_ms=read.integer("twinlog.transaction.ms", at_least=1),
        transaction_timeout_ms=read.integer("twinlog.transaction.timeout.ms", at_least=1000),
        fetch_bytes=read.integer("twinlog.fetch.bytes", at_least=1),
        partition_fetch_bytes=read.integer("twinlog.partition.fetch.bytes", at_least=1),
        read_committed=read.choice("consumer.isolation.level", _Isolation) is _Isolation.READ_COMMITTED,
        start_from_latest=read.choice("consumer.auto.offset.reset", _Reset) is _Reset.LATEST,
        poison=read.choice("twinlog.on.poison.record", PoisonPolicy),
        bytes_per_second=read.optional_integer("twinlog.bytes.per.second", at_least=1),
        spark_master=_spark_master(read),
        follow_seconds=read.integer("twinlog.follow.seconds", at_least=1),
    )
    if settings.transaction_timeout_ms <= settings.transaction_ms:
        _refuse_times(read, settings)
    return settings


def _spark_master(read: Reader) -> str:
    master = read.text("twinlog.spark.master")
    if not SPARK_MASTER.fullmatch(master):
        # The value is not shown: the address of a Connect server may hold a token.
        read.refuse("twinlog.spark.master", "is no Spark master", MASTERS)
    return master


def _refuse_times(read: Reader, settings: CopySettings) -> None:
    """Report the key that is written in the file; the other one may be a default, which is in no line."""
    commit, limit = "twinlog.transaction.ms", "twinlog.transaction.timeout.ms"
    if read.has(limit):
        message = f"is not above {commit} ({settings.transaction_ms}): no transaction could commit"
        read.refuse(limit, message, "raise it")
    else:
        message = f"is not below {limit} ({settings.transaction_timeout_ms}): no transaction could commit"
        read.refuse(commit, message, f"lower it, or raise {limit} too")

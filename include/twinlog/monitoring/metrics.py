"""Declare every metric once: its name, kind, labels, help and unit.

The text file, the HTTP endpoint, Airflow's gauges, the tables in docs/metrics.md and the tests of the alert rules and
of the dashboard all come from here.  A number that is not known has no sample: 0 would be good news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final

PREFIX = "twinlog_"
TOPIC = "topic"
OTHER = "(other)"
"""The label of all topics beyond the limit; no topic of Kafka can have this name."""


class Kind(StrEnum):
    """Name how a metric moves: a counter only grows while its process leads the flow."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Rest(StrEnum):
    """Name how the topics beyond the limit become one."""

    SUM = "sum"
    MOST = "most"
    LEAST = "least"


JOIN: Final[dict[Rest, Callable[[list[float]], float]]] = {Rest.SUM: sum, Rest.MOST: max, Rest.LEAST: min}


class Part(StrEnum):
    """Name who tells a number."""

    REPORT = "each cycle, and each minute while following"
    FOLLOW = "each minute while following"
    LANES = "every five seconds while following"
    GROUPS = "each turn of the checkpoints"
    GATE = "each answer of the gate in Airflow"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; `labels` are those beside `flow`.  `mm2` is the attribute of MirrorMaker 2 with the same meaning."""

    name: str
    help: str
    labels: tuple[str, ...]
    unit: str
    kind: Kind
    rest: Rest
    part: Part
    mm2: str

    @property
    def exported(self) -> str:
        """Return the name that Prometheus sees."""
        return f"{PREFIX}{self.name}" + ("_total" if self.kind is Kind.COUNTER else "")

    def of(self, value: float | None, *labels: str) -> Sample:
        """Return a sample; None: nobody knows the value."""
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {labels}")
        return Sample(self, value, labels)


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a metric for one flow; `labels` are in the order of the metric's."""

    metric: Metric
    value: float | None
    labels: tuple[str, ...]

    @property
    def topic(self) -> str:
        """Return the topic, "" for a sample of no topic."""
        return self.labels[self.metric.labels.index(TOPIC)] if TOPIC in self.metric.labels else ""


METRICS: Final[dict[str, Metric]] = {}


def _metric(
    name: str,
    text: str,
    *labels: str,
    unit: str = "",
    kind: Kind = Kind.GAUGE,
    rest: Rest = Rest.SUM,
    part: Part = Part.REPORT,
    mm2: bool = False,
) -> Metric:
    METRICS[name] = Metric(name, text, labels, unit, kind, rest, part, name.replace("_", "-") if mm2 else "")
    return METRICS[name]


def _followed(
    name: str, text: str, *labels: str, unit: str = "", rest: Rest = Rest.SUM, part: Part = Part.FOLLOW
) -> Metric:
    """Declare a number that is told while following, and that MM2 tells under the same name."""
    kind = Kind.COUNTER if name.endswith("_count") else Kind.GAUGE
    return _metric(name, text, *labels, unit=unit, kind=kind, rest=rest, part=part, mm2=True)


LEADS = _metric("leads", "1: this process leads the flow; 0: it stands by", part=Part.FOLLOW)

RECORD_COUNT = _followed(
    "record_count",
    "Records copied since this process leads the flow",
    TOPIC,
    unit="records",
    part=Part.LANES,
)
RECORD_RATE = _followed(
    "record_rate",
    "Records copied per second since it was told before",
    TOPIC,
    unit="records/s",
    part=Part.LANES,
)
BYTE_COUNT = _followed(
    "byte_count",
    "Bytes copied since this process leads the flow, batch headers included",
    TOPIC,
    unit="bytes",
    part=Part.LANES,
)
BYTE_RATE = _followed(
    "byte_rate", "Bytes copied per second since it was told before", unit="bytes/s", part=Part.LANES
)
REPLICATION_LATENCY_MS = _followed(
    "replication_latency_ms",
    "How old the newest record was when it was on the target, in the last transaction of the lane generation that ended"
    " last: the topic's slowest partition",
    TOPIC,
    unit="ms",
    rest=Rest.MOST,
)
TRANSACTIONS = _metric(
    "transactions",
    "Transactions committed since this process leads the flow",
    kind=Kind.COUNTER,
    part=Part.LANES,
)
TRANSACTION_RETRIES = _metric(
    "transaction_retries",
    "Transactions that the target refused; their records were sent again",
    kind=Kind.COUNTER,
    part=Part.LANES,
)
THROTTLED_SECONDS = _metric(
    "throttled_seconds",
    "How long quotas of the clusters have held lanes up",
    unit="s",
    kind=Kind.COUNTER,
    part=Part.LANES,
)
LANE_BEHIND_RECORDS = _metric(
    "lane_behind_records",
    "Upstream offsets that an open lane had still to copy at its last commit",
    "lane",
    unit="records",
    part=Part.LANES,
)
LANE_COMMIT_TIMESTAMP_SECONDS = _metric(
    "lane_commit_timestamp_seconds", "When that was (Unix time)", "lane", unit="s", part=Part.LANES
)

CYCLE_RECORDS = _metric(
    "cycle_records", "Records that the last cycle, or the run so far, copied", unit="records"
)
CYCLE_SECONDS = _metric("cycle_seconds", "How long the last cycle took, or the run so far", unit="s")
CYCLE_TIMESTAMP_SECONDS = _metric(
    "cycle_timestamp_seconds", "When the newest report was made (Unix time)", unit="s"
)
CYCLE_FAILED = _metric("cycle_failed", "1: something of the last cycle was not copied")
FAILED_CHECKS = _metric("failed_checks", "Checks of the last cycle that failed", "severity")

LAG_RECORDS = _metric("lag_records", "Upstream offsets still to be copied", TOPIC, unit="records")
LAG_SECONDS = _metric(
    "lag_seconds",
    "Age of the oldest record of the topic that is not on the target, undecided ones included",
    TOPIC,
    unit="s",
    rest=Rest.MOST,
)
RPO_BUDGET_SECONDS = _metric(
    "rpo_budget_seconds", "How old that record may be, by the topic's tier", TOPIC, unit="s", rest=Rest.LEAST
)
RPO_SECONDS = _metric(
    "rpo_seconds",
    "Age of the oldest record of the flow that is not on the target, undecided ones included",
    unit="s",
)
UNDECIDED_RECORDS = _metric(
    "undecided_records",
    "Upstream offsets behind open transactions of the source: not copied, and in no lag",
    TOPIC,
    unit="records",
)
UNDECIDED_SECONDS = _metric("undecided_seconds", "Age of the oldest of those, once it is a minute", unit="s")
UNSEEN_PARTITIONS = _metric(
    "unseen_partitions", "Partitions that could not be read: no other metric counts their records"
)
STOPPED_PARTITIONS = _metric("stopped_partitions", "Partitions that are not copied until a person acts")
BLOCKED_TOPICS = _metric("blocked_topics", "Topics that are not copied until a person acts", "reason")
PAUSED_TOPICS = _metric("paused_topics", "Topics that a person paused")
FLOW_ACTIVE = _metric("flow_active", "1: the flow copies; 0: it is paused, or failed over")
ORPHANED_COPIES = _metric("orphaned_copies", "Copies into which nothing is copied any more")
GAP_RECORDS = _metric(
    "gap_records", "Upper bound of the records in lost ranges", TOPIC, "cause", "state", unit="records"
)

AUDIT_COVERAGE_RATIO = _metric(
    "audit_coverage_ratio",
    "Share, 0 to 1, of the records that both sides still hold which audits have proved equal",
    TOPIC,
    rest=Rest.LEAST,
)
AUDIT_AGE_SECONDS = _metric(
    "audit_age_seconds",
    "Age of the oldest audit of any partition of the topic",
    TOPIC,
    unit="s",
    rest=Rest.MOST,
)
AUDIT_DIFFERENCES = _metric(
    "audit_differences", "Records that audits found unequal, and nobody has repaired", TOPIC, unit="records"
)
OBSERVED_RECORDS = _metric(
    "observed_records",
    "Records found wrong in a copy that another engine makes, by kind: at least so many, if some was not observed",
    TOPIC,
    "kind",
    unit="records",
)
DRIFTED_TOPICS = _metric("drifted_topics", "Topics whose copy falls behind its source in a config")
HEARTBEAT_AGE_SECONDS = _metric(
    "heartbeat_age_seconds", "Age of the newest heartbeat of the source on the target", unit="s"
)

GROUPS = _metric("groups", "Consumer groups of the source whose positions are followed", part=Part.GROUPS)
GROUP_POSITIONS = _metric(
    "group_positions", "Positions of groups, by how they stand on the target", "state", part=Part.GROUPS
)
CHECKPOINT_LATENCY_MS = _metric(
    "checkpoint_latency_ms",
    "From reading the positions on the source to their checkpoints being on the target, the last time",
    unit="ms",
    part=Part.GROUPS,
    mm2=True,
)
DUTY_FAILED = _metric(
    "duty_failed", "1: the duty beside the copy failed the last time", "duty", part=Part.FOLLOW
)

DRILL_PASSED = _metric("drill_passed", "1: the last drill that ended passed")
DRILL_TIMESTAMP_SECONDS = _metric("drill_timestamp_seconds", "When it ended (Unix time)", unit="s")
DRILL_RTO_SECONDS = _metric("drill_rto_seconds", "How long it took until groups read on the target", unit="s")
DRILL_RPO_SECONDS = _metric(
    "drill_rpo_seconds", "Age of the oldest record that its groups would have lost", unit="s"
)

READINESS = _metric(
    "readiness",
    "1: the gate's newest answer in this mode was ready, 0: it was not; none: it was never asked",
    "mode",
)
READINESS_AGE_SECONDS = _metric("readiness_age_seconds", "Age of that answer", "mode", unit="s")

GATE_READY = _metric("gate_ready", "1: the gate said ready", part=Part.GATE)
GATE_BLOCKING_CHECKS = _metric("gate_blocking_checks", "Checks that forbid a failover", part=Part.GATE)
GATE_AT_RISK_SECONDS = _metric(
    "gate_at_risk_seconds", "Age of the oldest record that would be lost", unit="s", part=Part.GATE
)


def shown(samples: Iterable[Sample], most_topics: int) -> tuple[Sample, ...]:
    """Return the samples with a known value, for at most so many topics: those first by name.  Pure.

    The others are one, `(other)`; what is not known of one of them is not known of it.
    """
    listed = list(samples)
    own = set(sorted({sample.topic for sample in listed if sample.topic})[:most_topics])
    kept = [sample for sample in listed if not sample.topic or sample.topic in own]
    folded = [_as_other(sample) for sample in listed if sample.topic and sample.topic not in own]
    folded.sort(key=lambda it: (it.metric.name, it.labels))
    for (metric, labels), group in groupby(folded, key=lambda it: (it.metric, it.labels)):
        values = [sample.value for sample in group]
        known = [it for it in values if it is not None]
        if len(known) == len(values):
            kept.append(Sample(metric, JOIN[metric.rest](known), labels))
    return tuple(sample for sample in kept if sample.value is not None)


def _as_other(sample: Sample) -> Sample:
    at = sample.metric.labels.index(TOPIC)
    return replace(sample, labels=(*sample.labels[:at], OTHER, *sample.labels[at + 1 :]))

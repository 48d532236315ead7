"""The checks of every cycle: one suite per kind of row.

Severity critical means that the copy must not be relied upon; warning means that a person should look at it.
"""

from __future__ import annotations

from twinlog.checks.check import Check, Relation, Severity, Suite

PARTITION_CHECKS = (
    Check(
        "nothing-copied-twice",
        Severity.CRITICAL,
        "mapped_records",
        Relation.EQUAL,
        "mapped_upstream_offsets",
        "every upstream record stands once in the offset map",
        "do not fail over to this partition; run an audit and report it, this is a defect",
    ),
    Check(
        "downstream-counted-once",
        Severity.CRITICAL,
        "mapped_records",
        Relation.EQUAL,
        "mapped_downstream_offsets",
        "the map counts as many downstream records as upstream ones",
        "do not fail over to this partition; run an audit and report it, this is a defect",
    ),
    Check(
        "map-not-beyond-progress",
        Severity.CRITICAL,
        "next_upstream",
        Relation.AT_LEAST,
        "mapped_upstream_end",
        "what the map knows is behind the committed progress",
        "somebody set this partition's stored progress back; it would be copied again from there",
    ),
    Check(
        "map-whole",
        Severity.CRITICAL,
        "unmapped_offsets",
        Relation.EQUAL,
        0,
        "the offset map tells of every offset that was copied, as far as the copy still holds it",
        "a part of the map was lost: groups cannot be translated there, and records may be missing;"
        " `twinlog audit --full` names them, `twinlog rebuild` makes copy and map anew",
    ),
    Check(
        "nothing-deleted-early",
        Severity.CRITICAL,
        "deleted_early",
        Relation.EQUAL,
        0,
        "the copy has kept what the source still holds, except what the copy's own retention deleted",
        "records were deleted from the copy, or its retention was shorter: `twinlog audit` names them,"
        " `twinlog rebuild` copies the topic anew",
    ),
    Check(
        "progress-within-source",
        Severity.CRITICAL,
        "source_end",
        Relation.AT_LEAST,
        "next_upstream",
        "progress does not point beyond the source's end",
        "the source lost records it had acknowledged (unclean leader election), or the topic was recreated",
    ),
    Check(
        "nothing-expired-uncopied",
        Severity.CRITICAL,
        "next_upstream",
        Relation.AT_LEAST,
        "source_log_start",
        "the source still has what is not copied yet",
        "these records are lost: `twinlog gap list` tells which; a cycle with twinlog.on.gap=record-and-continue copies"
        " on behind them, `twinlog rebuild` copies anew what the source has; then `twinlog gap acknowledge`, and raise"
        " retention on the source or copy more often",
    ),
    Check(
        "copy-not-cut-off",
        Severity.CRITICAL,
        "target_stable_end",
        Relation.AT_LEAST,
        "mapped_downstream_end",
        "the target holds all that the map says was written",
        "the copy was deleted, recreated or lost records; it must be copied anew",
    ),
    Check(
        "partition-parity",
        Severity.CRITICAL,
        "target_partitions",
        Relation.AT_LEAST,
        "source_partitions",
        "the copy has at least as many partitions as its source",
        "run sync_topics, or add the partitions by hand",
    ),
    Check(
        "progress-never-goes-back",
        Severity.CRITICAL,
        "next_upstream",
        Relation.AT_LEAST,
        "reported_next_upstream",
        "progress is not behind the last cycle report",
        "somebody set stored progress back, or another replicator writes it; stop one of the two",
    ),
    Check(
        "lag-not-negative",
        Severity.WARNING,
        "lag_records",
        Relation.AT_LEAST,
        0,
        "lag is a number of records",
        "see progress-within-source",
    ),
)

PARTITIONS = Suite("partitions", "partition", ("topic", "partition"), PARTITION_CHECKS)

TOPIC_CHECKS = (
    Check(
        "replication-factor",
        Severity.WARNING,
        "target_replicas",
        Relation.AT_LEAST,
        "wanted_replicas",
        "the copy has as many replicas as its source, or as the target has brokers",
        "reassign the copy's partitions to more brokers (kafka-reassign-partitions)",
    ),
    Check(
        "min-insync-replicas",
        Severity.WARNING,
        "target_min_insync",
        Relation.AT_LEAST,
        "wanted_min_insync",
        "the copy asks for as many in-sync replicas as its source, as far as it has replicas",
        "set min.insync.replicas on the copy; MM2's config.properties.exclude leaves it out by default",
    ),
    Check(
        "can-be-written",
        Severity.WARNING,
        "fewest_in_sync",
        Relation.AT_LEAST,
        "target_min_insync",
        "every partition of the copy has enough replicas in sync for producers with acks=all",
        "bring the target's brokers back, or lower min.insync.replicas of the copy",
    ),
    Check(
        "every-partition-led",
        Severity.CRITICAL,
        "leaderless_partitions",
        Relation.EQUAL,
        0,
        "every partition of the copy has a leader",
        "bring the target's brokers back",
    ),
    Check(
        "retention-time",
        Severity.WARNING,
        "target_retention_ms",
        Relation.AT_LEAST,
        "source_retention_ms",
        "the copy keeps its records at least as long as the source",
        "raise retention.ms of the copy: it deletes what the source still has",
    ),
    Check(
        "retention-size",
        Severity.WARNING,
        "target_retention_bytes",
        Relation.AT_LEAST,
        "source_retention_bytes",
        "the copy keeps at least as many bytes as the source",
        "raise retention.bytes of the copy: it deletes what the source still has",
    ),
    Check(
        "record-size",
        Severity.WARNING,
        "target_max_message_bytes",
        Relation.AT_LEAST,
        "source_max_message_bytes",
        "the copy takes records as large as the source does",
        "raise max.message.bytes of the copy",
    ),
    Check(
        "cleanup-policy",
        Severity.WARNING,
        "cleanup_differs",
        Relation.EQUAL,
        0,
        "source and copy are cleaned up by the same policy",
        "set cleanup.policy of the copy to the source's: compaction and deletion lose different records",
    ),
    Check(
        "rpo-within-budget",
        Severity.WARNING,
        "age_seconds",
        Relation.AT_MOST,
        "rpo_seconds",
        "no record has been waiting for longer than the topic's RPO allows",
        "copy more often or with more lanes; see `twinlog status` for what is waiting",
    ),
    Check(
        "transactions-end",
        Severity.WARNING,
        "undecided_seconds",
        Relation.AT_MOST,
        "undecided_allowed",
        "no transaction of the source has held records back for longer than twinlog.undecided.seconds",
        "nothing behind it can be copied before it ends; `twinlog status` tells who holds it",
    ),
)

TOPICS = Suite("topics", "topic", ("topic",), TOPIC_CHECKS)

FLOW_CHECKS = (
    Check(
        "no-open-gaps",
        Severity.WARNING,
        "gaps",
        Relation.EQUAL,
        0,
        "no upstream records were lost before they could be copied",
        "see `twinlog gap list` for topics, offsets and causes; they will never be copied",
    ),
    Check(
        "heartbeat-age",
        Severity.WARNING,
        "heartbeat_age_seconds",
        Relation.AT_MOST,
        "heartbeat_age_allowed",
        "heartbeats of the source arrive on the target",
        "see whether something beats on the source (the flow back, also when it is not enabled) and is copied",
    ),
)

FLOW = Suite("flow", "flow", ("flow",), FLOW_CHECKS)

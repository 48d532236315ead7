"""The checks of every cycle: one suite per kind of row.

Severity critical means that the copy must not be relied upon; warning means that a person should look at it.
"""

from __future__ import annotations

from twinlog.checks.check import Suite, critical, warning

PARTITION_CHECKS = (
    critical(
        "nothing-copied-twice",
        "mapped_records = mapped_upstream_offsets",
        "every upstream record stands once in the offset map",
        "do not fail over to this partition; run an audit and report it, this is a defect",
        "PD",
    ),
    critical(
        "downstream-counted-once",
        "mapped_records = mapped_downstream_offsets",
        "the map counts as many downstream records as upstream ones",
        "do not fail over to this partition; run an audit and report it, this is a defect",
        "PD",
    ),
    critical(
        "map-not-beyond-progress",
        "next_upstream >= mapped_upstream_end",
        "what the map knows is behind the committed progress",
        "somebody set this partition's stored progress back; it would be copied again from there",
        "PD",
    ),
    critical(
        "map-whole",
        "unmapped_offsets = 0",
        "the offset map tells of every offset that was copied, as far as the copy still holds it",
        "a part of the map was lost: groups cannot be translated there, and records may be missing;"
        " `twinlog audit --full` names them, `twinlog topics rebuild` makes copy and map anew",
        "PD",
    ),
    critical(
        "nothing-deleted-early",
        "deleted_early = 0",
        "the copy has kept what the source still holds, except what the copy's own retention deleted",
        "records were deleted from the copy, or its retention was shorter: `twinlog audit` names them,"
        " `twinlog topics rebuild` copies the topic anew",
    ),
    critical(
        "progress-within-source",
        "source_end >= next_upstream",
        "progress does not point beyond the source's end",
        "the source lost records it had acknowledged (unclean leader election), or the topic was recreated",
    ),
    critical(
        "nothing-expired-uncopied",
        "next_upstream >= source_log_start",
        "the source still has what is not copied yet",
        "these records are lost: `twinlog topics gaps` tells which; a cycle with twinlog.on.gap=record-and-continue"
        " copies on behind them, `twinlog topics rebuild` copies anew what the source has; then `twinlog"
        " accept no-gaps`, and raise retention on the source or copy more often",
    ),
    critical(
        "copy-not-cut-off",
        "target_stable_end >= mapped_downstream_end",
        "the target holds all that the map says was written",
        "the copy was deleted, recreated or lost records; it must be copied anew",
        "PD",
    ),
    critical(
        "partition-parity",
        "target_partitions >= source_partitions",
        "the copy has at least as many partitions as its source",
        "run sync_topics, or add the partitions by hand",
    ),
    critical(
        "progress-never-goes-back",
        "next_upstream >= reported_next_upstream",
        "progress is not behind the last cycle report",
        "somebody set stored progress back, or another replicator writes it; stop one of the two",
        "PD",
    ),
    warning(
        "lag-not-negative", "lag_records >= 0", "lag is a number of records", "see progress-within-source"
    ),
)

PARTITIONS = Suite("partitions", "partition", ("topic", "partition"), PARTITION_CHECKS)

TOPIC_CHECKS = (
    warning(
        "replication-factor",
        "target_replicas >= wanted_replicas",
        "the copy has as many replicas as its source, or as the target has brokers",
        "reassign the copy's partitions to more brokers (kafka-reassign-partitions)",
    ),
    warning(
        "min-insync-replicas",
        "target_min_insync >= wanted_min_insync",
        "the copy asks for as many in-sync replicas as its source, as far as it has replicas",
        "set min.insync.replicas on the copy; MM2's config.properties.exclude leaves it out by default",
    ),
    warning(
        "can-be-written",
        "fewest_in_sync >= needed_in_sync",
        "every partition of the copy has enough replicas in sync for producers with acks=all",
        "bring the target's brokers back, or lower min.insync.replicas of the copy",
        "PD",
    ),
    critical(
        "every-partition-led",
        "leaderless_partitions = 0",
        "every partition of the copy has a leader",
        "bring the target's brokers back",
        "PD",
    ),
    warning(
        "retention-time",
        "target_retention_ms >= source_retention_ms",
        "the copy keeps its records at least as long as the source",
        "raise retention.ms of the copy: it deletes what the source still has",
    ),
    warning(
        "retention-size",
        "target_retention_bytes >= source_retention_bytes",
        "the copy keeps at least as many bytes as the source",
        "raise retention.bytes of the copy: it deletes what the source still has",
    ),
    warning(
        "record-size",
        "target_max_message_bytes >= source_max_message_bytes",
        "the copy takes records as large as the source does",
        "raise max.message.bytes of the copy",
    ),
    warning(
        "cleanup-policy",
        "cleanup_differs = 0",
        "source and copy are cleaned up by the same policy",
        "set cleanup.policy of the copy to the source's: compaction and deletion lose different records",
    ),
    warning(
        "rpo-within-budget",
        "age_seconds <= rpo_seconds",
        "no record has been waiting for longer than the topic's RPO allows",
        "see `twinlog status`: if no cycle has ended since, run one; otherwise copy more often, or with more lanes",
    ),
    warning(
        "transactions-end",
        "undecided_seconds <= undecided_allowed",
        "no transaction of the source has held records back for longer than twinlog.undecided.seconds",
        "nothing behind it can be copied before it ends; `twinlog status` tells who holds it",
    ),
)

TOPICS = Suite("topics", "topic", ("topic",), TOPIC_CHECKS)

FLOW_CHECKS = (
    warning(
        "no-open-gaps",
        "gaps = 0",
        "no upstream records were lost before they could be copied",
        "see `twinlog topics gaps` for topics, offsets and causes; they will never be copied",
        "",
    ),
    warning(
        "heartbeat-age",
        "heartbeat_age_seconds <= heartbeat_age_allowed",
        "heartbeats of the source arrive on the target",
        "see whether heartbeats are written to the source (by the reverse flow, also if it is not enabled) and copied;"
        " a cycle copies the heartbeats written before it, so the first check after a pause over this limit"
        " warns although the cycle succeeded",
    ),
)

FLOW = Suite("flow", "flow", ("flow",), FLOW_CHECKS)

"""The gate's checks of topics, partitions and groups, beyond the checks of every cycle."""

from __future__ import annotations

from twinlog.checks.check import critical, warning

MAP_KNOWN = critical(
    "map-known",
    "mapped_records >= mapped_wanted",
    "the offset map knows where the copied records went",
    "groups would start at a guess; see whether the offset map topic was deleted, and audit the partition",
    "PD",
)
LAG = critical(
    "lag-records",
    "missing_records <= lag_allowed",
    "everything the source has is copied, as far as the topic's tier asks",
    "stop the producers, end open transactions, run cycles until nothing lags (`twinlog run --once`), and ask again; a"
    " partition that stopped at a gap (`twinlog topics gaps`) goes on with twinlog.on.gap=record-and-continue, or after"
    " `twinlog topics rebuild`",
    "S",
)
SURVIVES = warning(
    "survives-a-broker",
    "target_replicas >= 2",
    "the copy survives the loss of one broker of the target",
    "use a target with several brokers and set replication.factor",
    "PD",
)
ALL_READ = critical(
    "every-partition-seen",
    "partitions_seen = source_partitions",
    "every partition of the topic could be read on the source",
    "bring the brokers of the source back that lead the others",
)
COPY_THERE = critical(
    "copy-there",
    "target_partitions >= known_partitions",
    "the copy is there with every partition that was copied, or is known of the source",
    "the copy was never made, was deleted or made anew: a cycle makes it, or says why it cannot; without the source it"
    " cannot be copied again",
    "PD",
)
NO_GAPS = critical(
    "no-gaps",
    "gaps = 0",
    "no records of the topic were lost before they could be copied, but those that have expired since, or that"
    " somebody answers for",
    "see `twinlog topics gaps` for offsets and causes; if you can do without them, `twinlog accept no-gaps`",
    "PD",
)
AUDIT_EQUAL = critical(
    "audit-equal",
    "audit_differences = 0",
    "what was audited is equal on both sides",
    "see `twinlog audit` for the records that differ, and copy the topic anew",
    "PD",
)
AUDIT_AGE = critical(
    "audit-age",
    "audit_age_seconds <= audit_age_allowed",
    "the copy was audited, and not too long ago",
    "run `twinlog audit`, or unpause its Dag: what nobody has compared counts as not ready",
    "PD",
)
AUDIT_PROMISED = critical(
    "audit-promised",
    "audited_percent >= audit_wanted_percent",
    "of what both sides still hold, as much has been compared as is asked for (twinlog.audit.percent)",
    "run `twinlog audit`: it says by count and reason what it cannot prove; 0 means that nothing was ever compared",
    "PD",
)
AUDIT_COVERAGE = warning(
    "audit-coverage",
    "unproved_records = 0",
    "all of the copy has been proved equal to its source",
    "the gate's coverage says for which reasons: `twinlog audit` proves what is not-audited; target-retention is what"
    " the copy's own retention deleted: raise retention.ms or retention.bytes on the target, and `twinlog topics"
    " rebuild` if the source still has it; deleted-early is for `twinlog topics rebuild`",
    "PD",
)
KNOWN_DRIFT = critical(
    "known-drift",
    "drifting_entries = 0",
    "the copy was set up as its source, when the last cycle looked",
    "set the entries of the copy as `twinlog gate` lists them under drift",
    "D",
)
KNOWN_RPO = critical(
    "known-rpo",
    "age_seconds <= rpo_seconds",
    "no record had been waiting for longer than the RPO allows, when the last cycle looked",
    "these records are lost with the source; not known is the wait of a record without a time, and all of a copy that"
    " was begun, or emptied by a rebuild, since that cycle; decide whether to go on without them, and accept it",
    "D",
)
KNOWN_WHOLE = critical(
    "known-deleted-early",
    "deleted_early = 0",
    "the copy had kept what the source held, except what its own retention deleted, when the last audit looked",
    "these records are lost with the source; decide whether to go on without them, and accept it",
    "D",
)
KNOWN_READ = critical(
    "known-partitions-seen",
    "partitions_unread = 0",
    "every partition could be read on the source, when the last cycle looked",
    "what these partitions held beyond the copy nobody knows; decide whether to go on without it, and accept it",
    "D",
)
KNOWN_LAG = warning(
    "known-lag",
    "records_at_risk = 0",
    "everything was copied, when the last cycle looked",
    "these records are lost with the source, and what came after the last cycle",
    "D",
)
KNOWN_UNDECIDED = critical(
    "known-transactions-end",
    "undecided_seconds <= undecided_allowed",
    "no transaction had held records back for longer than twinlog.undecided.seconds, when the last cycle looked",
    "what lay behind it is lost with the source, committed or not; not known is what a cycle of an older twinlog saw,"
    " and all of a copy that was begun, or emptied by a rebuild, since; decide whether to go on without, and accept it",
    "D",
)

GROUP_COVERED = critical(
    "group-covered",
    "wrongly_not = 0",
    "no group's position is missing on the target that should be there",
    "see the reason in `twinlog groups`, and run a cycle",
    "PD",
)
GROUP_CURRENT = critical(
    "final-group-pass",
    "passed_on = translated",
    "what the group has committed by now was passed on to the target",
    "stop the consumers or let them finish, run one more cycle, and ask again",
    "S",
)
GROUP_SAME_RECORD = critical(
    "group-same-record",
    "same_record = 1",
    "the position of a group names the same record on both sides, as read there",
    "do not let the group go on there: it would skip records; audit the partition and report it, this is a defect",
)
GROUP_NOT_REWOUND = critical(
    "group-not-rewound",
    "rewound_records = 0",
    "no group was rewound on the source that keeps its place on the target",
    "it would skip what it was to read again: twinlog.group.sync.policy=follow takes it back in the next cycle, or"
    " reset it there by hand; accept it for a group that need not",
)
GROUP_NOT_AHEAD = critical(
    "group-not-ahead",
    "skipped_records = 0",
    "no group would skip records: none stands further on the target than it has read on the source",
    "reset it there by hand (`twinlog groups` shows both positions); if it may skip them, say so: accept it",
    "PD",
)
GROUP_ALL_THERE = critical(
    "group-all-there",
    "missing_records = 0",
    "every record that a group has not read, and the source still has, is on the target",
    "it would miss them: let it read them on the source; keep records on the target as long as there",
)
GROUP_NOT_BELOW = critical(
    "group-in-log",
    "position >= target_log_start",
    "the group's position on the target has not expired there",
    "its auto.offset.reset would decide where it starts: reset it by hand",
    "PD",
)
GROUP_NOT_BEYOND = critical(
    "group-lag-not-negative",
    "target_end >= position",
    "the group's position on the target is not beyond its end",
    "its auto.offset.reset would decide where it starts: reset it by hand",
    "PD",
)

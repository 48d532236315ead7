"""The gate's checks of topics, partitions and groups, beyond the checks of every cycle."""

from __future__ import annotations

from twinlog.checks.check import Check, Relation, Severity

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

MAP_KNOWN = Check(
    "map-known",
    CRITICAL,
    "mapped_records",
    Relation.AT_LEAST,
    "mapped_wanted",
    "the offset map knows where the copied records went",
    "groups would start at a guess; see whether the offset map topic was deleted, and audit the partition",
    needs=True,
)
LAG = Check(
    "lag-records",
    CRITICAL,
    "missing_records",
    Relation.AT_MOST,
    "lag_allowed",
    "everything the source has is copied, as far as the topic's tier asks",
    "stop the producers, end open transactions, run cycles until nothing lags (`twinlog run --once`), and ask again",
    needs=True,
)
SURVIVES = Check(
    "survives-a-broker",
    WARNING,
    "target_replicas",
    Relation.AT_LEAST,
    2,
    "the copy survives the loss of one broker of the target",
    "use a target with several brokers and set replication.factor",
    needs=True,
)
ALL_READ = Check(
    "every-partition-seen",
    CRITICAL,
    "partitions_seen",
    Relation.EQUAL,
    "source_partitions",
    "every partition of the topic could be read on the source",
    "bring the brokers of the source back that lead the others",
    needs=True,
)
COPY_THERE = Check(
    "copy-there",
    CRITICAL,
    "target_partitions",
    Relation.AT_LEAST,
    "known_partitions",
    "the copy is there with every partition that was copied, or is known of the source",
    "the copy was never made, deleted or made anew; without the source it cannot be copied again",
    needs=True,
)
NO_GAPS = Check(
    "no-gaps",
    CRITICAL,
    "gaps",
    Relation.EQUAL,
    0,
    "no records of the topic were lost before they could be copied, but those that have expired since, or that"
    " somebody answers for",
    "see `twinlog gap list` for offsets and causes; if you can do without them, `twinlog gap acknowledge`",
    needs=True,
)
AUDIT_EQUAL = Check(
    "audit-equal",
    CRITICAL,
    "audit_differences",
    Relation.EQUAL,
    0,
    "what was audited is equal on both sides",
    "see `twinlog audit` for the records that differ, and copy the topic anew",
)
AUDIT_AGE = Check(
    "audit-age",
    CRITICAL,
    "audit_age_seconds",
    Relation.AT_MOST,
    "audit_age_allowed",
    "the copy was audited, and not too long ago",
    "run `twinlog audit`, or unpause its Dag: what nobody has compared counts as not ready",
    needs=True,
)
AUDIT_PROMISED = Check(
    "audit-promised",
    CRITICAL,
    "audited_percent",
    Relation.AT_LEAST,
    "audit_wanted_percent",
    "of what both sides still hold, as much has been proved equal as is asked for (twinlog.audit.percent)",
    "run `twinlog audit`: it says by count and reason what it cannot prove; 0 means that nothing was ever compared",
)
AUDIT_COVERAGE = Check(
    "audit-coverage",
    WARNING,
    "unproved_records",
    Relation.EQUAL,
    0,
    "all of the copy has been proved equal to its source",
    "the gate's coverage says for which reasons; run `twinlog audit` for those that are not audited",
    needs=True,
)
KNOWN_DRIFT = Check(
    "known-drift",
    CRITICAL,
    "drifting_entries",
    Relation.EQUAL,
    0,
    "the copy was set up as its source, when the last cycle looked",
    "set the entries of the copy as `twinlog gate` lists them under drift",
    needs=True,
)
KNOWN_RPO = Check(
    "known-rpo",
    CRITICAL,
    "age_seconds",
    Relation.AT_MOST,
    "rpo_seconds",
    "no record had been waiting for longer than the RPO allows, when the last cycle looked",
    "these records are lost with the source; not known is the wait of a record without a time, and all of a copy that"
    " was begun, or emptied by a rebuild, since that cycle; decide whether to go on without them, and waive it",
    needs=True,
)
KNOWN_READ = Check(
    "known-partitions-seen",
    CRITICAL,
    "partitions_unread",
    Relation.EQUAL,
    0,
    "every partition could be read on the source, when the last cycle looked",
    "what these partitions held beyond the copy nobody knows; decide whether to go on without it, and waive it",
    needs=True,
)
KNOWN_LAG = Check(
    "known-lag",
    WARNING,
    "records_at_risk",
    Relation.EQUAL,
    0,
    "everything was copied, when the last cycle looked",
    "these records are lost with the source, and what came after the last cycle",
    needs=True,
)
KNOWN_UNDECIDED = Check(
    "known-transactions-end",
    CRITICAL,
    "undecided_seconds",
    Relation.AT_MOST,
    "undecided_allowed",
    "no transaction had held records back for longer than twinlog.undecided.seconds, when the last cycle looked",
    "what lay behind it is lost with the source, committed or not; not known is what a cycle of an older twinlog saw,"
    " and all of a copy that was begun, or emptied by a rebuild, since; decide whether to go on without, and waive it",
    needs=True,
)

GROUP_COVERED = Check(
    "group-covered",
    CRITICAL,
    "wrongly_not",
    Relation.EQUAL,
    0,
    "no group's position is missing on the target that should be there",
    "see the reason in `twinlog groups`, and run a cycle",
    needs=True,
)
GROUP_CURRENT = Check(
    "final-group-pass",
    CRITICAL,
    "passed_on",
    Relation.EQUAL,
    "translated",
    "what the group has committed by now was passed on to the target",
    "stop the consumers or let them finish, run one more cycle, and ask again",
    needs=True,
)
GROUP_SAME_RECORD = Check(
    "group-same-record",
    CRITICAL,
    "same_record",
    Relation.EQUAL,
    1,
    "the position of a group names the same record on both sides, as read there",
    "do not let the group go on there: it would skip records; audit the partition and report it, this is a defect",
)
GROUP_NOT_REWOUND = Check(
    "group-not-rewound",
    CRITICAL,
    "rewound_records",
    Relation.EQUAL,
    0,
    "no group was rewound on the source that keeps its place on the target",
    "it would skip what it was to read again: twinlog.group.sync.policy=follow takes it back in the next cycle, or"
    " reset it there by hand; waive it for a group that need not",
    needs=True,
)
GROUP_NOT_AHEAD = Check(
    "group-not-ahead",
    WARNING,
    "skipped_records",
    Relation.EQUAL,
    0,
    "no group would skip records: none stands further on the target than it has read on the source",
    "right if it read them on the target; if not, reset it there by hand (`twinlog groups` shows both positions)",
)
GROUP_ALL_THERE = Check(
    "group-all-there",
    CRITICAL,
    "missing_records",
    Relation.EQUAL,
    0,
    "every record that a group has not read, and the source still has, is on the target",
    "it would miss them: let it read them on the source; keep records on the target as long as there",
)
GROUP_NOT_BELOW = Check(
    "group-in-log",
    CRITICAL,
    "position",
    Relation.AT_LEAST,
    "target_log_start",
    "the group's position on the target has not expired there",
    "its auto.offset.reset would decide where it starts: reset it by hand",
)
GROUP_NOT_BEYOND = Check(
    "group-lag-not-negative",
    CRITICAL,
    "target_end",
    Relation.AT_LEAST,
    "position",
    "the group's position on the target is not beyond its end",
    "its auto.offset.reset would decide where it starts: reset it by hand",
)

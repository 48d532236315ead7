"""State every check once: what it asks of a row, who asks it, and what a failure means to them.

The letters in front of a check's name are for the four uses, in their order: F forbids to rely on the copy, w asks for
a look, - is not asked.

    cycle   before a planned failover   the same, while producers still write   without the source
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from twinlog.errors import ConfigError
from twinlog.judge.check import Severity, Suite, Use, row
from twinlog.judge.observed import OBSERVED, OF_ENGINE

BLOCKED = (
    row(
        "FFFF nothing-blocked: blocked = 0",
        "no topic of the flow is blocked, or was left out with records that were never copied",
        "no cycle gets on with it before a person acts",
        "problems",
    ),
)

FLOW = (
    row(
        "-FFF flow-has-run: cycles >= 1 cycle",
        "the flow has run",
        "nothing was ever copied and reported by this flow; run `twinlog run --once` or its Dag",
    ),
    row(
        "-FFF last-cycle-succeeded: last_cycle_failed = 0 cycle",
        "the last cycle failed in nothing",
        "see its report (`twinlog status`, or the Dag's last run) and run it again",
    ),
    row(
        "-FFF state-age: state_age_seconds <= state_age_allowed cycle",
        "the last cycle is young enough to rely upon",
        "run a cycle; if the source is gone, all numbers of it are this old: decide, and accept it",
    ),
    row(
        "-FFF flow-in-service: out_of_service = 0",
        "the flow has not been failed over",
        "it was promoted, or is being failed over: go on with that (`twinlog failover`), or fail back",
    ),
    row(
        "-FFF has-topics: topics >= 1",
        "the flow has topics besides heartbeats",
        "see `twinlog plan --explain` for what its filters select",
    ),
    row(
        "-FF- flow-not-paused: paused = 0",
        "no person has paused the flow",
        "`twinlog resume` it: a planned failover copies what is left, and is refused while the flow is paused",
    ),
    row(
        "-FF- source-answers: source_answers = 1",
        "the source answers",
        "a planned failover needs it; if it is lost, ask in mode source-dead",
    ),
    row(
        "---F source-silent: source_answers = 0",
        "the source does not answer",
        "it is alive, and its records can still be copied: ask in mode planned; accept this only if clients"
        " cannot write to it any more",
    ),
    row(
        "-F-- source-fenced: moving_partitions = 0",
        "nothing is written to the source: its partitions' ends stood still, no transaction is open",
        "stop the producers of the topics marked `still written to` in the table of topics at risk, and ask again; an"
        " open transaction has to end, too",
        "moving",
    ),
    row(
        "w--- no-open-gaps: gaps = 0",
        "no upstream records were lost before they could be copied",
        "see `twinlog topics gaps` for topics, offsets and causes; they will never be copied",
    ),
    row(
        "www- heartbeat-age: heartbeat_age_seconds <= heartbeat_age_allowed",
        "heartbeats of the source arrive on the target",
        "see whether heartbeats are written to the source (by the reverse flow, also if it is not enabled) and"
        " copied; a cycle copies the heartbeats written before it, so the first check after a pause over this limit"
        " warns although the cycle succeeded",
    ),
    row(
        "-www free-disk: free_disk_percent >= free_disk_wanted",
        "every broker of the target has disk left for what producers will write to it",
        "add disk to the target, or shorten retention there",
    ),
    row(
        "-www state-writers: state_writers = 0",
        "nobody but twinlog may write to the flow's state on the target",
        "WRITE there is worth much of what twinlog may do (docs/security.md): see whose ACLs cover it, and narrow"
        " them",
        "writers",
    ),
    row(
        "-FF- acl-parity: pending_acls = 0",
        "who may use a topic on the source may use its copy, as the metadata profile has it",
        "see `twinlog metadata plan`, and apply it; while a failover is under way, `twinlog recovery abort --reason"
        " ...` comes first",
    ),
    row(
        "-ww- quota-parity: pending_quotas = 0",
        "clients have the quotas on the target that they have on the source",
        "see `twinlog metadata plan`, and apply it",
    ),
    row(
        "-ww- config-drift: drifting_configs = 0",
        "no config of a copy differs from its source's",
        "see `twinlog metadata plan`, changes and drift",
    ),
    row(
        "-www metadata-known: metadata_unknown = 0",
        "configs, rights and quotas of both clusters could be compared",
        "see `twinlog metadata plan` for what was refused; without the source nothing of it is known",
    ),
    row(
        "-FF- schema-parity: schemas_differing = 0",
        "the schemas that the flow copies, if it does, are on the target as on the source, ids included",
        "run a cycle, or `twinlog metadata schemas --execute`; what still differs was changed on the target",
        "schemas",
    ),
    row(
        "-FF- canary: canary_seconds <= canary_allowed",
        "a record written to the source now arrived on the target in time",
        "nothing copies, or too slowly: run cycles meanwhile (`twinlog run --for 5m`, or the Dag), and ask again",
    ),
)

TOPICS = (
    row(
        "wFF- replication-factor: target_replicas >= wanted_replicas",
        "the copy has as many replicas as its source, or as the target has brokers",
        "reassign the copy's partitions to more brokers (kafka-reassign-partitions)",
    ),
    row(
        "wFF- min-insync-replicas: target_min_insync >= wanted_min_insync",
        "the copy asks for as many in-sync replicas as its source, as far as it has replicas",
        "set min.insync.replicas on the copy; MM2's config.properties.exclude leaves it out by default",
    ),
    row(
        "wFFF can-be-written: fewest_in_sync >= needed_in_sync",
        "every partition of the copy has enough replicas in sync for producers with acks=all",
        "bring the target's brokers back, or lower min.insync.replicas of the copy",
    ),
    row(
        "FFFF every-partition-led: leaderless_partitions = 0",
        "every partition of the copy has a leader",
        "bring the target's brokers back",
    ),
    row(
        "wFF- retention-time: target_retention_ms >= source_retention_ms",
        "the copy keeps its records at least as long as the source",
        "raise retention.ms of the copy: it deletes what the source still has",
    ),
    row(
        "wFF- retention-size: target_retention_bytes >= source_retention_bytes",
        "the copy keeps at least as many bytes as the source",
        "raise retention.bytes of the copy: it deletes what the source still has",
    ),
    row(
        "wFF- record-size: target_max_message_bytes >= source_max_message_bytes",
        "the copy takes records as large as the source does",
        "raise max.message.bytes of the copy",
    ),
    row(
        "wFF- cleanup-policy: cleanup_differs = 0",
        "source and copy are cleaned up by the same policy",
        "set cleanup.policy of the copy to the source's: compaction and deletion lose different records",
    ),
    row(
        "wFF- rpo-within-budget: age_seconds <= rpo_seconds",
        "no record has been waiting for longer than the topic's RPO allows",
        "see `twinlog status`: if no cycle has ended since, run one; otherwise copy more often, or with more lanes",
    ),
    row(
        "wFF- transactions-end: undecided_seconds <= undecided_allowed",
        "no transaction of the source has held records back for longer than twinlog.undecided.seconds",
        "nothing behind it can be copied before it ends; `twinlog status` tells who holds it",
        "held_by",
    ),
    row(
        "-www survives-a-broker: target_replicas >= 2",
        "the copy survives the loss of one broker of the target",
        "use a target with several brokers and set replication.factor",
    ),
    row(
        "-FF- every-partition-seen: partitions_seen = source_partitions",
        "every partition of the topic could be read on the source",
        "bring the brokers of the source back that lead the others",
    ),
    row(
        "-FFF copy-there: target_partitions >= known_partitions",
        "the copy is there with every partition that was copied, or is known of the source",
        "the copy was never made, was deleted or made anew: a cycle makes it, or says why it cannot; without the"
        " source it cannot be copied again",
    ),
    row(
        "---F known-drift: drifting_entries = 0 cycle",
        "the copy was set up as its source, when the last cycle looked",
        "set the entries of the copy as `twinlog gate` lists them under drift",
    ),
    row(
        "---F known-partitions-seen: partitions_unread = 0 cycle",
        "every partition could be read on the source, when the last cycle looked",
        "what these partitions held beyond the copy nobody knows; decide whether to go on without it, and accept it",
    ),
    row(
        "---F known-rpo: age_seconds <= rpo_seconds cycle",
        "no record had been waiting for longer than the RPO allows, when the last cycle looked",
        "these records are lost with the source; not known is the wait of a record without a time, and all of a copy"
        " that was begun, or emptied by a rebuild, since that cycle; decide whether to go on without them, and accept"
        " it",
    ),
    row(
        "---w known-lag: records_at_risk = 0 cycle",
        "everything was copied, when the last cycle looked",
        "these records are lost with the source, and what came after the last cycle",
    ),
    row(
        "---F known-transactions-end: undecided_seconds <= undecided_allowed cycle",
        "no transaction had held records back for longer than twinlog.undecided.seconds, when the last cycle looked",
        "what lay behind it is lost with the source, committed or not; not known is what a cycle of an older twinlog"
        " saw, and all of a copy that was begun, or emptied by a rebuild, since; decide whether to go on without, and"
        " accept it",
        "held_by",
    ),
    row(
        "-FFF no-gaps: gaps = 0",
        "no records of the topic were lost before they could be copied, but those that have expired since, or that"
        " somebody answers for",
        "see `twinlog topics gaps` for offsets and causes; if you can do without them, `twinlog accept no-gaps`",
    ),
    row(
        "-FFF audit-equal: audit_differences = 0 audit",
        "what was audited is equal on both sides",
        "see `twinlog audit` for the records that differ, and copy the topic anew",
    ),
    row(
        "-FFF audit-age: audit_age_seconds <= audit_age_allowed audit",
        "the copy was audited, and not too long ago",
        "run `twinlog audit`, or unpause its Dag: what nobody has compared counts as not ready",
    ),
    row(
        "-FFF audit-promised: audited_percent >= audit_wanted_percent audit",
        "of what both sides still hold, as much has been compared as is asked for (twinlog.audit.percent)",
        "run `twinlog audit`: it says by count and reason what it cannot prove; 0 means that nothing was ever"
        " compared",
    ),
    row(
        "-www audit-coverage: unproved_records = 0 audit",
        "all of the copy has been proved equal to its source",
        "the gate's coverage says for which reasons: `twinlog audit` proves what is not-audited; target-retention is"
        " what the copy's own retention deleted: raise retention.ms or retention.bytes on the target, and `twinlog"
        " topics rebuild` if the source still has it; deleted-early is for `twinlog topics rebuild`",
    ),
)

PARTITIONS = (
    row(
        "FFFF nothing-copied-twice: mapped_records = mapped_upstream_offsets",
        "every upstream record stands once in the offset map",
        "do not fail over to this partition; run an audit and report it, this is a defect",
    ),
    row(
        "FFFF downstream-counted-once: mapped_records = mapped_downstream_offsets",
        "the map counts as many downstream records as upstream ones",
        "do not fail over to this partition; run an audit and report it, this is a defect",
    ),
    row(
        "FFFF map-not-beyond-progress: next_upstream >= mapped_upstream_end",
        "what the map knows is behind the committed progress",
        "somebody set this partition's stored progress back; it would be copied again from there",
    ),
    row(
        "FFFF map-whole: unmapped_offsets = 0",
        "the offset map has lost nothing of what was copied, as far as the copy still holds it",
        "a part of the map was lost: groups cannot be translated there, and records may be missing; `twinlog audit"
        " --full` names them, `twinlog topics rebuild` makes copy and map anew",
    ),
    row(
        "FFF- nothing-deleted-early: deleted_early = 0",
        "the copy has kept what the source still holds, except what the copy's own retention deleted",
        "records were deleted from the copy, or its retention was shorter: `twinlog audit` names them, `twinlog"
        " topics rebuild` copies the topic anew",
    ),
    row(
        "FFF- progress-within-source: source_end >= next_upstream",
        "progress does not point beyond the source's end",
        "the source lost records it had acknowledged (unclean leader election), or the topic was recreated",
    ),
    row(
        "FFF- nothing-expired-uncopied: next_upstream >= source_log_start",
        "the source still has what is not copied yet",
        "these records are lost: `twinlog topics gaps` tells which; a cycle with twinlog.on.gap=record-and-continue"
        " copies on behind them, `twinlog topics rebuild` copies anew what the source has; then `twinlog accept"
        " no-gaps`, and raise retention on the source or copy more often",
    ),
    row(
        "FFFF copy-not-cut-off: target_stable_end >= mapped_downstream_end",
        "the target holds all that the map says was written",
        "the copy was deleted, recreated or lost records; it must be copied anew",
    ),
    row(
        "FFF- partition-parity: target_partitions >= source_partitions",
        "the copy has at least as many partitions as its source",
        "run sync_topics, or add the partitions by hand",
    ),
    row(
        "FFFF progress-never-goes-back: next_upstream >= reported_next_upstream cycle",
        "progress is not behind the last cycle report",
        "somebody set stored progress back, or another replicator writes it; stop one of the two",
    ),
    row(
        "www- lag-not-negative: lag_records >= 0", "lag is a number of records", "see progress-within-source"
    ),
    row(
        "-FFF map-known: mapped_records >= mapped_wanted",
        "the offset map knows where the copied records went",
        "groups would start at a guess; see whether the offset map topic was deleted, and audit the partition",
    ),
    row(
        "-F-- lag-records: missing_records <= lag_allowed",
        "everything the source has is copied, as far as the topic's tier asks",
        "stop the producers, end open transactions, run cycles until nothing lags (`twinlog run --once`), and ask"
        " again; a partition that stopped at a gap (`twinlog topics gaps`) goes on with"
        " twinlog.on.gap=record-and-continue, or after `twinlog topics rebuild`",
    ),
    row(
        "---F known-deleted-early: deleted_early = 0 audit",
        "the copy had kept what the source held, except what its own retention deleted, when the last audit looked",
        "these records are lost with the source; decide whether to go on without them, and accept it",
    ),
)

GROUPS = (
    row(
        "-FFF group-covered: wrongly_not = 0 checkpoint",
        "no group's position is missing on the target that should be there",
        "see the reason in `twinlog groups`, and run a cycle",
    ),
    row(
        "-FF- group-same-record: same_record = 1",
        "the position of a group names the same record on both sides, as read there",
        "do not let the group go on there: it would skip records; audit the partition and report it, this is a defect",
    ),
    row(
        "-FF- group-not-rewound: rewound_records = 0",
        "no group was rewound on the source that keeps its place on the target",
        "it would skip what it was to read again: twinlog.group.sync.policy=follow takes it back in the next cycle,"
        " or reset it there by hand; accept it for a group that need not",
    ),
    row(
        "-FFF group-not-ahead: skipped_records = 0",
        "no group would skip records: none stands further on the target than it has read on the source",
        "reset it there by hand (`twinlog groups` shows both positions); if it has read them there, or may skip them,"
        " say so: accept it",
    ),
    row(
        "-FF- group-all-there: missing_records = 0",
        "every record that a group has not read, and the source still has, is on the target",
        "it would miss them: let it read them on the source; keep records on the target as long as there",
    ),
    row(
        "-F-- final-group-pass: passed_on = translated",
        "what the group has committed by now was passed on to the target",
        "stop the consumers or let them finish, run one more cycle, and ask again",
    ),
    row(
        "-FFF group-in-log: position >= target_log_start",
        "the group's position on the target has not expired there",
        "its auto.offset.reset would decide where it starts: reset it by hand",
    ),
    row(
        "-FFF group-lag-not-negative: target_end >= position",
        "the group's position on the target is not beyond its end",
        "its auto.offset.reset would decide where it starts: reset it by hand",
    ),
)


TABLE = (
    Suite("blocked", "topic", ("topic",), BLOCKED),
    Suite("flow", "flow", ("flow",), FLOW),
    Suite("topics", "topic", ("topic",), (*TOPICS, *OBSERVED)),
    Suite("partitions", "partition", ("topic", "partition"), PARTITIONS),
    Suite("groups", "group's partition", ("group", "topic", "partition"), GROUPS),
)

CHECKS = {check.name: check for suite in TABLE for check in suite.checks if check.uses[1:] != "---"}
"""Every check that a gate can make, by name."""


def asked(use: Use, blocking: Collection[str] = (), *, observed: bool = False) -> tuple[Suite, ...]:
    """Return the suites of a use, without those of which it asks nothing.

    Warnings become critical if `blocking` (`twinlog.gate.blocking`) names them.  If another engine copies
    (`observed`), the advice is what to do with that engine.
    """
    suites = (
        replace(
            suite,
            checks=tuple(
                replace(
                    it,
                    severity=Severity.CRITICAL if it.name in blocking else severity,
                    advice=OF_ENGINE.get(it.name, it.advice) if observed else it.advice,
                )
                for it in suite.checks
                if (severity := it.severity_for(use)) is not None
            ),
        )
        for suite in TABLE
    )
    return tuple(it for it in suites if it.checks)


def refuse_unknown(names: Iterable[str], where: str) -> None:
    """Raise ConfigError for a name that is no check of the gate: it would silently block, or waive, nothing."""
    for name in names:
        if name not in CHECKS:
            raise ConfigError(
                f"{where}: {name!r} is no check of the gate", f"one of: {', '.join(sorted(CHECKS))}"
            )

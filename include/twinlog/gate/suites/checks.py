"""The gate's checks beyond those of every cycle.

What the gate does not know counts against a failover, unless a check has a question mark.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.checks.check import Check, read_checks

FENCED, SCHEMAS, AUDIT_EQUAL = "source-fenced", "schema-parity", "audit-equal"

_OF_COPIES = """
critical map-known: mapped_records >= mapped_wanted
  holds: the offset map knows where the copied records went
  else: groups would start at a guess; see whether the offset map topic was deleted, and audit the partition
critical lag-records: missing_records <= lag_allowed
  holds: everything the source has is copied, as far as the topic's tier asks
  else: stop the producers, end open transactions, run cycles until nothing lags (`twinlog run --once`), and ask
    again; a partition that stopped at a gap (`twinlog gap list`) goes on with twinlog.on.gap=record-and-continue,
    or after `twinlog rebuild`
warning survives-a-broker: target_replicas >= 2
  holds: the copy survives the loss of one broker of the target
  else: use a target with several brokers and set replication.factor
critical every-partition-seen: partitions_seen = source_partitions
  holds: every partition of the topic could be read on the source
  else: bring the brokers of the source back that lead the others
critical copy-there: target_partitions >= known_partitions
  holds: the copy is there with every partition that was copied, or is known of the source
  else: the copy was never made, deleted or made anew; without the source it cannot be copied again
critical no-gaps: gaps = 0
  holds: no records of the topic were lost before they could be copied, but those that have expired since, or that
    somebody answers for
  else: see `twinlog gap list` for offsets and causes; if you can do without them, `twinlog gap acknowledge`
critical? audit-equal: audit_differences = 0
  holds: what was audited is equal on both sides
  else: see `twinlog audit` for the records that differ, and copy the topic anew
critical audit-age: audit_age_seconds <= audit_age_allowed
  holds: the copy was audited, and not too long ago
  else: run `twinlog audit`, or unpause its Dag: what nobody has compared counts as not ready
critical? audit-promised: audited_percent >= audit_wanted_percent
  holds: of what both sides still hold, as much has been compared as is asked for (twinlog.audit.percent)
  else: run `twinlog audit`: it says by count and reason what it cannot prove; 0 means that nothing was ever
    compared
warning audit-coverage: unproved_records = 0
  holds: all of the copy has been proved equal to its source
  else: the gate's coverage says for which reasons: `twinlog audit` proves what is not-audited; target-retention
    is what the copy's own retention deleted: raise retention.ms or retention.bytes on the target, and `twinlog
    rebuild` if the source still has it; deleted-early is for `twinlog rebuild`
critical known-drift: drifting_entries = 0
  holds: the copy was set up as its source, when the last cycle looked
  else: set the entries of the copy as `twinlog gate` lists them under drift
critical known-rpo: age_seconds <= rpo_seconds
  holds: no record had been waiting for longer than the RPO allows, when the last cycle looked
  else: these records are lost with the source; not known is the wait of a record without a time, and all of a
    copy that was begun, or emptied by a rebuild, since that cycle; decide whether to go on without them, and
    waive it
critical known-deleted-early: deleted_early = 0
  holds: the copy had kept what the source held, except what its own retention deleted, when the last audit looked
  else: these records are lost with the source; decide whether to go on without them, and waive it
critical known-partitions-seen: partitions_unread = 0
  holds: every partition could be read on the source, when the last cycle looked
  else: what these partitions held beyond the copy nobody knows; decide whether to go on without it, and waive it
warning known-lag: records_at_risk = 0
  holds: everything was copied, when the last cycle looked
  else: these records are lost with the source, and what came after the last cycle
critical known-transactions-end: undecided_seconds <= undecided_allowed
  holds: no transaction had held records back for longer than twinlog.undecided.seconds, when the last cycle
    looked
  else: what lay behind it is lost with the source, committed or not; not known is what a cycle of an older
    twinlog saw, and all of a copy that was begun, or emptied by a rebuild, since; decide whether to go on
    without, and waive it
"""

_OF_GROUPS = """
critical group-covered: wrongly_not = 0
  holds: no group's position is missing on the target that should be there
  else: see the reason in `twinlog groups`, and run a cycle
critical final-group-pass: passed_on = translated
  holds: what the group has committed by now was passed on to the target
  else: stop the consumers or let them finish, run one more cycle, and ask again
critical? group-same-record: same_record = 1
  holds: the position of a group names the same record on both sides, as read there
  else: do not let the group go on there: it would skip records; audit the partition and report it, this is a
    defect
critical group-not-rewound: rewound_records = 0
  holds: no group was rewound on the source that keeps its place on the target
  else: it would skip what it was to read again: twinlog.group.sync.policy=follow takes it back in the next cycle,
    or reset it there by hand; waive it for a group that need not
warning? group-not-ahead: skipped_records = 0
  holds: no group would skip records: none stands further on the target than it has read on the source
  else: right if it read them on the target; if not, reset it there by hand (`twinlog groups` shows both
    positions)
critical? group-all-there: missing_records = 0
  holds: every record that a group has not read, and the source still has, is on the target
  else: it would miss them: let it read them on the source; keep records on the target as long as there
critical? group-in-log: position >= target_log_start
  holds: the group's position on the target has not expired there
  else: its auto.offset.reset would decide where it starts: reset it by hand
critical? group-lag-not-negative: target_end >= position
  holds: the group's position on the target is not beyond its end
  else: its auto.offset.reset would decide where it starts: reset it by hand
"""

_OF_THE_FLOW = """
critical flow-has-run: cycles >= 1
  holds: the flow has run
  else: nothing was ever copied and reported by this flow; run `twinlog run --once` or its Dag
critical last-cycle-succeeded: last_cycle_failed = 0
  holds: the last cycle failed in nothing
  else: see its report (`twinlog status`, or the Dag's last run) and run it again
critical state-age: state_age_seconds <= state_age_allowed
  holds: the last cycle is young enough to rely upon
  else: run a cycle; if the source is gone, all numbers of it are this old: decide, and waive it
critical has-topics: topics >= 1
  holds: the flow has topics besides heartbeats
  else: see `twinlog explain` for what its filters select
critical flow-in-service: out_of_service = 0
  holds: the flow has not been failed over
  else: it was promoted, or is being failed over: go on with that (`twinlog failover`), or fail back
critical flow-not-paused: paused = 0
  holds: no person has paused the flow
  else: `twinlog resume` it: a planned failover copies what is left, and is refused while the flow is paused
critical source-answers: source_answers = 1
  holds: the source answers
  else: a planned failover needs it; if it is lost, ask with --mode source-dead
critical source-silent: source_answers = 0
  holds: the source does not answer
  else: it is alive, and its records can still be copied: ask with --mode planned; waive this only if clients
    cannot write to it any more
critical source-fenced: moving_partitions = 0
  holds: nothing is written to the source: its partitions' ends stood still, no transaction is open
  else: stop the producers of the topics marked `still written to` in the table of topics at risk, and ask again;
    an open transaction has to end, too
warning free-disk: free_disk_percent >= free_disk_wanted
  holds: every broker of the target has disk left for what producers will write to it
  else: add disk to the target, or shorten retention there
critical canary: canary_seconds <= canary_allowed
  holds: a record written to the source now arrived on the target in time
  else: nothing copies, or too slowly: run cycles meanwhile (`twinlog run --for 5m`, or the Dag), and ask again
critical acl-parity: pending_acls = 0
  holds: who may use a topic on the source may use its copy, as the metadata profile has it
  else: see `twinlog metadata plan`, and apply it
critical principal-parity: pending_users = 0
  holds: the declared users can log in on the target
  else: see `twinlog metadata plan`, and apply it
warning? quota-parity: pending_quotas = 0
  holds: clients have the quotas on the target that they have on the source
  else: see `twinlog metadata plan`, and apply it
warning? config-drift: drifting_configs = 0
  holds: no config of a copy differs from its source's
  else: see `twinlog metadata plan`, changes and drift
critical? schema-parity: schemas_differing = 0
  holds: the schemas that the flow copies, if it does, are on the target as on the source, ids included
  else: run a cycle, or `twinlog schemas apply`; what still differs was changed on the target
warning metadata-known: metadata_unknown = 0
  holds: configs, rights, users and quotas of both clusters could be compared
  else: see `twinlog metadata plan` for what was refused; without the source nothing of it is known
"""

CHECKS: Mapping[str, Check] = {
    it.name: it for it in read_checks(_OF_COPIES + _OF_GROUPS + _OF_THE_FLOW, needs=True)
}
"""By name."""

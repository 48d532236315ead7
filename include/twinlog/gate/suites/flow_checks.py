"""The gate's checks of a flow and its clusters."""

from __future__ import annotations

from twinlog.checks.check import critical, warning

HAS_RUN = critical(
    "flow-has-run",
    "cycles >= 1",
    "the flow has run",
    "nothing was ever copied and reported by this flow; run `twinlog run --once` or its Dag",
    "PD",
)
LAST_CYCLE = critical(
    "last-cycle-succeeded",
    "last_cycle_failed = 0",
    "the last cycle failed in nothing",
    "see its report (`twinlog status`, or the Dag's last run) and run it again",
    "PD",
)
STATE_AGE = critical(
    "state-age",
    "state_age_seconds <= state_age_allowed",
    "the last cycle is young enough to rely upon",
    "run a cycle; if the source is gone, all numbers of it are this old: decide, and accept it",
    "PD",
)
HAS_TOPICS = critical(
    "has-topics",
    "topics >= 1",
    "the flow has topics besides heartbeats",
    "see `twinlog plan --explain` for what its filters select",
    "PD",
)
IN_SERVICE = critical(
    "flow-in-service",
    "out_of_service = 0",
    "the flow has not been failed over",
    "it was promoted, or is being failed over: go on with that (`twinlog failover`), or fail back",
    "PD",
)
NOT_PAUSED = critical(
    "flow-not-paused",
    "paused = 0",
    "no person has paused the flow",
    "`twinlog resume` it: a planned failover copies what is left, and is refused while the flow is paused",
)
SOURCE_ANSWERS = critical(
    "source-answers",
    "source_answers = 1",
    "the source answers",
    "a planned failover needs it; if it is lost, ask with --mode source-dead",
)
SOURCE_SILENT = critical(
    "source-silent",
    "source_answers = 0",
    "the source does not answer",
    "it is alive, and its records can still be copied: ask with --mode planned; accept this only if clients cannot"
    " write to it any more",
    "D",
)
FENCED = critical(
    "source-fenced",
    "moving_partitions = 0",
    "nothing is written to the source: its partitions' ends stood still, no transaction is open",
    "stop the producers of the topics marked `still written to` in the table of topics at risk, and ask again;"
    " an open transaction has to end, too",
    "S",
)
FREE_DISK = warning(
    "free-disk",
    "free_disk_percent >= free_disk_wanted",
    "every broker of the target has disk left for what producers will write to it",
    "add disk to the target, or shorten retention there",
    "PD",
)
STATE_WRITERS = warning(
    "state-writers",
    "state_writers = 0",
    "nobody but twinlog may write to the flow's state on the target",
    "WRITE there is worth much of what twinlog may do (docs/security.md): see whose ACLs cover it, and narrow them",
    "PD",
)
CANARY = critical(
    "canary",
    "canary_seconds <= canary_allowed",
    "a record written to the source now arrived on the target in time",
    "nothing copies, or too slowly: run cycles meanwhile (`twinlog run --for 5m`, or the Dag), and ask again",
    "C",
)

ACLS = critical(
    "acl-parity",
    "pending_acls = 0",
    "who may use a topic on the source may use its copy, as the metadata profile has it",
    "see `twinlog metadata plan`, and apply it; while a failover is under way, `twinlog recovery abort --reason ...`"
    " comes first",
)
USERS = critical(
    "principal-parity",
    "pending_users = 0",
    "the declared users can log in on the target",
    "see `twinlog metadata plan`, and apply it",
)
QUOTAS = warning(
    "quota-parity",
    "pending_quotas = 0",
    "clients have the quotas on the target that they have on the source",
    "see `twinlog metadata plan`, and apply it",
)
CONFIGS = warning(
    "config-drift",
    "drifting_configs = 0",
    "no config of a copy differs from its source's",
    "see `twinlog metadata plan`, changes and drift",
)
SCHEMAS = critical(
    "schema-parity",
    "schemas_differing = 0",
    "the schemas that the flow copies, if it does, are on the target as on the source, ids included",
    "run a cycle, or `twinlog metadata schemas --execute`; what still differs was changed on the target",
)
METADATA = warning(
    "metadata-known",
    "metadata_unknown = 0",
    "configs, rights, users and quotas of both clusters could be compared",
    "see `twinlog metadata plan` for what was refused; without the source nothing of it is known",
    "PD",
)

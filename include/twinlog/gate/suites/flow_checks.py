"""The gate's checks of a flow and its clusters."""

from __future__ import annotations

from twinlog.checks.check import Check, Relation, Severity

CRITICAL, WARNING = Severity.CRITICAL, Severity.WARNING

HAS_RUN = Check(
    "flow-has-run",
    CRITICAL,
    "cycles",
    Relation.AT_LEAST,
    1,
    "the flow has run",
    "nothing was ever copied and reported by this flow; run `twinlog run --once` or its Dag",
    needs=True,
)
LAST_CYCLE = Check(
    "last-cycle-succeeded",
    CRITICAL,
    "last_cycle_failed",
    Relation.EQUAL,
    0,
    "the last cycle failed in nothing",
    "see its report (`twinlog status`, or the Dag's last run) and run it again",
    needs=True,
)
STATE_AGE = Check(
    "state-age",
    CRITICAL,
    "state_age_seconds",
    Relation.AT_MOST,
    "state_age_allowed",
    "the last cycle is young enough to rely upon",
    "run a cycle; if the source is gone, all numbers of it are this old: decide, and waive it",
    needs=True,
)
HAS_TOPICS = Check(
    "has-topics",
    CRITICAL,
    "topics",
    Relation.AT_LEAST,
    1,
    "the flow has topics",
    "see `twinlog explain` for what its filters select",
    needs=True,
)
IN_SERVICE = Check(
    "flow-in-service",
    CRITICAL,
    "out_of_service",
    Relation.EQUAL,
    0,
    "the flow has not been failed over",
    "it was promoted, or is being failed over: go on with that (`twinlog failover`), or fail back",
    needs=True,
)
SOURCE_ANSWERS = Check(
    "source-answers",
    CRITICAL,
    "source_answers",
    Relation.EQUAL,
    1,
    "the source answers",
    "a planned failover needs it; if it is lost, ask with --mode source-dead",
    needs=True,
)
SOURCE_SILENT = Check(
    "source-silent",
    CRITICAL,
    "source_answers",
    Relation.EQUAL,
    0,
    "the source does not answer",
    "it is alive, and its records can still be copied: ask with --mode planned; waive this only if clients cannot"
    " write to it any more",
    needs=True,
)
FENCED = Check(
    "source-fenced",
    CRITICAL,
    "moving_partitions",
    Relation.EQUAL,
    0,
    "nothing is written to the source: its partitions' ends stood still, no transaction is open",
    "stop the producers of the topics marked `still written to` in the table of topics at risk, and ask again;"
    " an open transaction has to end, too (`twinlog status` names its transactional id)",
    needs=True,
)
FREE_DISK = Check(
    "free-disk",
    WARNING,
    "free_disk_percent",
    Relation.AT_LEAST,
    "free_disk_wanted",
    "every broker of the target has disk left for what producers will write to it",
    "add disk to the target, or shorten retention there",
    needs=True,
)
CANARY = Check(
    "canary",
    CRITICAL,
    "canary_seconds",
    Relation.AT_MOST,
    "canary_allowed",
    "a record written to the source now arrived on the target in time",
    "nothing copies, or too slowly: run cycles meanwhile (`twinlog run --for 5m`, or the Dag), and ask again",
    needs=True,
)

ACLS = Check(
    "acl-parity",
    CRITICAL,
    "pending_acls",
    Relation.EQUAL,
    0,
    "who may use a topic on the source may use its copy, as the metadata profile has it",
    "see `twinlog metadata plan`, and apply it",
    needs=True,
)
USERS = Check(
    "principal-parity",
    CRITICAL,
    "pending_users",
    Relation.EQUAL,
    0,
    "the declared users can log in on the target",
    "see `twinlog metadata plan`, and apply it",
    needs=True,
)
QUOTAS = Check(
    "quota-parity",
    WARNING,
    "pending_quotas",
    Relation.EQUAL,
    0,
    "clients have the quotas on the target that they have on the source",
    "see `twinlog metadata plan`, and apply it",
)
CONFIGS = Check(
    "config-drift",
    WARNING,
    "drifting_configs",
    Relation.EQUAL,
    0,
    "no config of a copy differs from its source's",
    "see `twinlog metadata plan`, changes and drift",
)
SCHEMAS = Check(
    "schema-parity",
    CRITICAL,
    "schemas_differing",
    Relation.EQUAL,
    0,
    "the copy of the schema registry's topic, if the flow has one, holds what the source's does, ids included",
    "run a cycle; what still differs was changed on the target: `twinlog audit` names it",
)
METADATA = Check(
    "metadata-known",
    WARNING,
    "metadata_unknown",
    Relation.EQUAL,
    0,
    "configs, rights, users and quotas of both clusters could be compared",
    "see `twinlog metadata plan` for what was refused; without the source nothing of it is known",
    needs=True,
)

"""List the steps of a drill, in their order; the runbook is made from the same table.  Pure."""

from __future__ import annotations

from enum import StrEnum

from twinlog.recovery.procedure import Step


class DrillStep(StrEnum):
    """Name the steps of a drill."""

    TIDY = "tidy"
    CHOOSE = "choose"
    PLACE = "place"
    READ = "read"
    COMPARE = "compare"
    CANARY = "canary"
    AT_RISK = "at-risk"
    CLEAN_UP = "clean-up"


DRILL = (
    Step(
        DrillStep.TIDY,
        "deletes the clones that an earlier drill left on the target, by the names in the ledger",
        "nothing was left, or all of it is deleted",
        "a clone with members cannot be deleted: stop its consumer and run it again",
    ),
    Step(
        DrillStep.CHOOSE,
        "translates the position of every group that is asked for, as a failover would, and takes the first of them",
        "every position has a place on the target",
        "a position without a place is named, and fails the drill: `twinlog groups` says why",
    ),
    Step(
        DrillStep.PLACE,
        "writes the names of the clones into the ledger, then commits them on the target",
        "every clone committed",
        "the target refuses a commit: grant READ on groups with the prefix `drill-`",
    ),
    Step(
        DrillStep.READ,
        "starts a consumer with each clone on the target, and takes the first record of each partition; then with the"
        " login of the group's application, if `twinlog.drill.clients` has one",
        "a first record in seconds",
        "no record within 30 s fails the drill: look at the target's brokers. An application that is refused is named:"
        " grant what its line says",
    ),
    Step(
        DrillStep.COMPARE,
        "tells by the map, and by the source if it answers, whether each record is the one that the group would read"
        " next",
        "the right record in every partition that had one",
        "a wrong record is named by both offsets: do not fail over before `twinlog audit` and `twinlog groups` say why",
    ),
    Step(
        DrillStep.CANARY,
        "writes a heartbeat to the target and reads it back",
        "the target takes writes",
        "see why the target refuses writes",
    ),
    Step(
        DrillStep.AT_RISK,
        "finds the age of the oldest record that is not on the target; without the source, by the last cycle's report",
        "within the RPO of its tier",
        "the flow lags: `twinlog status`",
    ),
    Step(
        DrillStep.CLEAN_UP,
        "deletes the clones, whatever happened before",
        "none is left",
        "those that are left are named: the next drill deletes them",
    ),
)

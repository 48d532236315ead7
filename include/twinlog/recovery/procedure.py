"""List the steps of a failover and of the way home, in their order: one table each, as the runbooks have them.  Pure.

What was proved before a restart is proved again after it: facts of a moment expire.  So a failover that was stopped
before its promotion does all steps again, each of which changes nothing if it was done already.  After the promotion
only the steps behind it are left.  There is no state "failed": a step that fails leaves the last good one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from twinlog.errors import TerminalError
from twinlog.formats.ledger.recovery import FAILBACK as HOMEWARD
from twinlog.formats.ledger.recovery import JournalEntry, RecoveryRun, RunState, StepState
from twinlog.gate.suites.suites import Mode


class StepName(StrEnum):
    """Name the steps of both modes of a failover, of a failback, and of the way home."""

    BEGIN = "begin"
    FENCE_PRODUCERS = "fence-producers"
    DRAIN = "drain"
    GROUPS = "groups"
    AUDIT = "audit"
    LOSS = "loss"
    GATE = "gate"
    APPROVE = "approve"
    RIGHTS = "rights"
    PROMOTE = "promote"
    SCHEMAS = "schemas"
    SWITCH_CLIENTS = "switch-clients"
    CANARY = "canary"
    REPORT = "report"
    COMPARE = "compare"
    EXPORT_TAIL = "export-tail"
    WRITE_FILES = "write-files"
    BRING_HOME = "bring-home"
    FOLLOW = "follow"


class Tail(StrEnum):
    """Name what becomes, on the way home, of records that the source alone has; they are exported before."""

    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it does, what is to be expected of it, and what to do otherwise; A is the source, B the target."""

    name: StepName
    does: str
    expected: str
    otherwise: str

    def does_for(self, source: str, target: str) -> str:
        """Say what it does with the aliases of a flow."""
        return re.sub(r"\b[AB]\b", lambda found: {"A": source, "B": target}[found[0]], self.does)


_BEGIN = Step(
    StepName.BEGIN,
    "takes the flow's fence and writes the state `failing-over`: every cycle, follow run and Dag stands by",
    "`failing-over` in `twinlog status`",
    "another failover is under way: `twinlog recovery status` says whose",
)
_APPROVE = Step(
    StepName.APPROVE,
    "asks a person; `--yes` answers beforehand",
    "yes",
    "no: nothing is promoted; run it again, or `twinlog recovery abort`",
)
_RIGHTS = Step(
    StepName.RIGHTS,
    "gives producers their rights on the target: the metadata plan of profile `promoted`",
    "every change made, or nothing to change",
    "planned: the step fails and names the change; make it by hand and run it again. Source-dead: it goes on, and names"
    " what is missing",
)
_PROMOTE = Step(
    StepName.PROMOTE,
    "looks once more, and writes the state `promoted` behind the fence; there is no way back after this",
    "`promoted` in `twinlog status`",
    "something moved since it was checked: run it again",
)
_SCHEMAS = Step(
    StepName.SCHEMAS,
    "lets clients register on the target's schema registry (`twinlog.schemas.subjects`): the copied subjects become"
    " READWRITE",
    "every copied subject is READWRITE, or the flow copies none",
    "it goes on, and names what is not set: set it by hand ([schema registries](../schema-registry.md#failover))",
)
_SWITCH = Step(
    StepName.SWITCH_CLIENTS,
    "runs the hook of `twinlog.failover.hook.*`",
    "the hook answers well within its time-out",
    "the flow stays promoted; mend the hook and run the command again: only this and what follows is done",
)
_CANARY = Step(
    StepName.CANARY,
    "writes a heartbeat to the target and reads it back",
    "the target takes writes",
    "see why the target refuses writes; run it again",
)
_REPORT = Step(
    StepName.REPORT,
    "writes the evidence, signed if there is a key",
    "a file below `twinlog.reports.folder`",
    "make the folder writable and run it again",
)

PLANNED = (
    _BEGIN,
    Step(
        StepName.FENCE_PRODUCERS,
        "copies what there is; refuses if the gate already says no to what no step mends; denies WRITE on the source if"
        " it keeps ACLs; watches that the ends of its partitions stand still",
        "nothing is written to the source any more",
        "waits for `twinlog.failover.wait.seconds`, then names the topics: stop their producers and run it again",
    ),
    Step(
        StepName.DRAIN,
        "copies until nothing is left, and reports a cycle; with unchanged names both ways `B->A` passes over what"
        " came",
        "0 records left in every partition",
        "a partition that cannot be copied is named, with what to do",
    ),
    Step(
        StepName.GROUPS,
        "writes offset syncs and checkpoints, and commits the position of every group on the target",
        "every group exactly placed",
        "a group is active on the target, or still reads on the source: stop it and run it again",
    ),
    Step(
        StepName.AUDIT,
        "compares what no audit has compared yet, record by record",
        "equal",
        "differences are named: `twinlog audit`; copy the topic anew, or accept them (`twinlog accept`)",
    ),
    Step(
        StepName.GATE,
        "asks the readiness gate, mode planned",
        "ready",
        "do what the check says, or accept it (`twinlog accept`), and run it again",
    ),
    _APPROVE,
    _RIGHTS,
    _PROMOTE,
    _SCHEMAS,
    _SWITCH,
    _CANARY,
    _REPORT,
)

_LOSS = Step(
    StepName.LOSS,
    "says what is lost with the source: known from the last cycle, and estimated by the recent rate",
    "records and seconds, by partition",
    "without a report of a cycle the loss is unknown, and the gate says no",
)

SOURCE_DEAD = (
    _BEGIN,
    _LOSS,
    Step(
        StepName.GATE,
        "asks the readiness gate, mode source-dead",
        "ready",
        "the source answers: use mode planned. Otherwise decide what you accept, and run it again",
    ),
    _APPROVE,
    Step(
        StepName.GROUPS,
        "commits on the target the position of every group that has a checkpoint, also of groups never synced",
        "every group placed",
        "a group is active on the target: stop it and run it again",
    ),
    _RIGHTS,
    _PROMOTE,
    _SCHEMAS,
    _SWITCH,
    _CANARY,
    _REPORT,
)

_SAVING = (
    Step(
        StepName.COMPARE,
        "counts the records that are on one side alone: on the source behind what was copied, on the target behind the"
        " copies",
        "every partition looked at",
        "a partition that cannot be compared, or an open transaction on the source, is named; the others are exported."
        " Mend it, or wait until the transaction ends, and run it again",
    ),
    Step(
        StepName.EXPORT_TAIL,
        "writes what is on the source alone to topics `mm2-tail.A.TOPIC.internal` on the target, behind the flow's"
        " fence: each record once",
        "as many records as were counted",
        "run it again: it goes on behind the last transaction",
    ),
    Step(
        StepName.WRITE_FILES,
        "writes the same records to Parquet files, and what clients wrote to copies on the target that no flow brings"
        " home",
        "as many records as in the topics",
        "make the folder writable and run it again; if the source has deleted records meanwhile, the topics still hold"
        " them",
    ),
)

FAILBACK = (*_SAVING, _REPORT)

HOME = (
    Step(
        StepName.BEGIN,
        "takes the fences of both flows and writes the states: `A->B` is `failing-back`, `B->A` copies for it alone",
        "`failing-back` in `twinlog status --flow 'A->B'`",
        "it says which flow is in the way: paused, or failing over itself",
    ),
    *_SAVING,
    Step(
        StepName.BRING_HOME,
        "removes the denials that the failover made on A, for `B->A` writes there; copies to A what was written on B,"
        " and to B what A alone has, while clients work on B; notes on A how far records and groups have come, lest B"
        " is lost",
        "little is left to copy",
        "A alone has records: say `--tail keep`. A partition that cannot be copied is named, with what to do",
    ),
    Step(
        StepName.FENCE_PRODUCERS,
        "copies what there is; refuses if the gate already says no to what no step mends; denies WRITE on B if it keeps"
        " ACLs; watches that the ends of its partitions stand still",
        "nothing is written to B any more",
        "waits for `twinlog.failover.wait.seconds`, then names the topics: stop their producers and run it again",
    ),
    Step(
        StepName.DRAIN,
        "copies home until nothing is left, and reports a cycle of `B->A`; `A->B` passes over what came home",
        "0 records left in every partition",
        "a partition that cannot be copied is named, with what to do",
    ),
    Step(
        StepName.GROUPS,
        "writes offset syncs and checkpoints, and commits the position of every group on A, by the maps of both flows",
        "every group exactly placed",
        "a group is active on A, or still reads on B: stop it and run it again",
    ),
    Step(
        StepName.AUDIT,
        "compares what no audit of either flow has compared yet, record by record",
        "equal, both ways",
        "differences are named: `twinlog audit`; copy the topic anew, or accept them (`twinlog accept`)",
    ),
    Step(
        StepName.GATE,
        "asks the readiness gate of `B->A`, mode planned",
        "ready",
        "do what the check says, or accept it (`twinlog accept --flow 'B->A'`), and run it again",
    ),
    Step(
        StepName.APPROVE,
        "asks a person; `--yes` answers beforehand",
        "yes",
        "no: clients stay on B; run it again, or `twinlog recovery abort`",
    ),
    Step(
        StepName.PROMOTE,
        "looks once more, and writes behind the fence that `A->B` follows; there is no way back after this",
        "`active` in `twinlog status --flow 'A->B'`",
        "something moved since it was checked: run it again",
    ),
    Step(
        StepName.SCHEMAS,
        "lets clients register on the schema registry of A, and not on that of B any more"
        " (`twinlog.schemas.subjects`)",
        "the copied subjects are READWRITE on A, READONLY on B, or no flow copies any",
        "mend what the message names, such as a registry that does not answer, and run it again",
    ),
    Step(
        StepName.FOLLOW,
        "lets `B->A` follow by itself again; takes the rights of producers on B away, and the denials there",
        "nothing is left over",
        "a right that stays is named: take it away by hand",
    ),
    Step(
        StepName.SWITCH_CLIENTS,
        "runs the hook of `B->A`, `twinlog.failover.hook.*`",
        "the hook answers well within its time-out",
        "A stays promoted; mend the hook and run the command again: only this and what follows is done",
    ),
    Step(
        StepName.CANARY,
        "writes a heartbeat to A and reads it back",
        "A takes writes",
        "see why A refuses writes; run it again",
    ),
    _REPORT,
)

STEPS = {Mode.PLANNED.value: PLANNED, Mode.SOURCE_DEAD.value: SOURCE_DEAD, HOMEWARD: HOME}


def names_of(mode: str) -> tuple[StepName, ...]:
    """Return the names of all steps of a mode."""
    return tuple(step.name for step in STEPS[mode])


def left(mode: str, run: RecoveryRun | None) -> tuple[StepName, ...]:
    """Return the steps that are still to be done: all of them until the promotion, then those not done."""
    names = names_of(mode)
    if run is None or run.state is not RunState.PROMOTED:
        return names
    done = {
        entry.step for entry in run.journal if entry.state in {StepState.DONE, StepState.SKIPPED}
    }  # entries from before the promotion are of other steps
    behind = names[names.index(StepName.PROMOTE) + 1 :]
    return tuple(name for name in behind if name.value not in done)


LIVE_MS = 60_000
"""A run without an entry for so long is not live: its process may be dead, or waits for a person."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The process that moves a failover: its person, a name of its own, `holder`, and its machine.

    A process without a `holder` only looks.  `driver` names what it is one of several tries of, such as a Dag run.
    """

    by: str
    holder: str
    host: str = ""
    driver: str = ""

    def works_for(self, driver: str) -> bool:
        """Say whether the process is one of those of `driver`."""
        return self.holder.rpartition("-")[0] == driver


def refuse_live(flow: str, run: RecoveryRun, actor: Actor, now_ms: int) -> None:
    """Raise TerminalError `live-run` if another person, or the same one on another host, is busy with the run."""
    begun = JournalEntry("begin", StepState.DONE, run.at_ms, 0.0, run.by, "")
    last = run.journal[-1] if run.journal else begun
    over = last.state in {StepState.FAILED, StepState.WAITING} or last.step == "abort"
    if not actor.holder or over or abs(now_ms - last.at_ms) >= LIVE_MS:
        return
    elsewhere = bool(last.host and actor.host) and last.host != actor.host
    one_of_ours = bool(actor.driver) and Actor(last.by, run.holder).works_for(actor.driver)
    if one_of_ours or (last.by == actor.by and not elsewhere):
        return
    where = f" on {last.host}" if last.host else ""
    raise TerminalError(
        f"{last.by}{where} is busy with {run.run} of {flow}, {run.mode}: step {last.step}"
        f" {max(0, now_ms - last.at_ms) // 1000} s ago",
        hint="wait until it ends or a minute passes without an entry, then run the same command again",
        code="live-run",
        flow=flow,
        run=run.run,
    )

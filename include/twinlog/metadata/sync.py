"""Step `sync_metadata`: bring topic configs, ACLs, quotas and declared users of the source to the target.

`make_plan` reads both sides and lists changes.  `apply` makes exactly those, item by item, and remembers in the ledger
what twinlog gave, so that it can later take back exactly that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from twinlog import clock
from twinlog.cluster.api import Cluster, Clusters
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.jsonable import to_json
from twinlog.metadata.acl_plan import plan_acls
from twinlog.metadata.apply import make_changes
from twinlog.metadata.config_plan import plan_topic_configs
from twinlog.metadata.memory import after, intended_acls, with_acls
from twinlog.metadata.read import MetadataState, Subject, read_state, subjects_of
from twinlog.metadata.scram_plan import given, plan_quotas, plan_scram, undeclared
from twinlog.metadata.values import Drift, MetadataChange, MetadataPlan, Part, change_document, join
from twinlog.state.ledger import Ledger, forget, read_ledger, require_ledger, write_ledger
from twinlog.topics.plan import Refusal


@dataclass(frozen=True, slots=True)
class MetadataResult:
    """The changes made on the target, those it refused item by item, and the differences that stay."""

    flow: str
    profile: Profile
    applied: tuple[MetadataChange, ...]
    refused: tuple[Refusal, ...]
    drift: tuple[Drift, ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Say whether nothing was refused."""
        return not self.refused

    @property
    def document(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "flow": self.flow,
            "profile": self.profile.value,
            "complete": self.complete,
            "applied": [change_document(change) for change in self.applied],
            "refused": to_json(self.refused),
            "drift": to_json(self.drift),
            "notes": list(self.notes),
        }


def run(flow: FlowSettings, clusters: Clusters, subjects: frozenset[Subject] | None = None) -> MetadataResult:
    """Plan and apply at once.  Raises what `make_plan` and `apply` raise."""
    return apply(flow, make_plan(flow, clusters, subjects), clusters.target)


def make_plan(
    flow: FlowSettings,
    clusters: Clusters,
    subjects: frozenset[Subject] | None = None,
    ledger: Ledger | None = None,
) -> MetadataPlan:
    """List what would change on the target, by `ledger` or the one of now.  Changes nothing.

    `subjects` None means all that the flow syncs.

    Raises ClusterUnreachable, and TerminalError `promoted` if the flow was failed over and the profile would take back
    what producers need.
    """
    ledger = ledger or read_ledger(flow, clusters.target)
    _respect_phase(flow, ledger)
    chosen = subjects_of(flow) if subjects is None else subjects & subjects_of(flow)
    state = read_state(flow, clusters, chosen, ledger)
    return join(flow.name, flow.metadata.profile, _parts(flow, state, ledger))


def apply(flow: FlowSettings, plan: MetadataPlan, target: Cluster) -> MetadataResult:
    """Make the changes of a plan, and remember them.

    Refused changes are reported item by item.  Raises ClusterUnreachable, and TerminalError `no-ledger` if the target
    has no ledger to remember them in.
    """
    if plan.changes or plan.agreed:
        require_ledger(flow, target)
    now = clock.now_ms()
    memory = read_ledger(flow, target).metadata
    intended = intended_acls(memory, plan.changes, now)
    write_ledger(flow, target, intended)
    made = make_changes(flow, plan.changes, target)
    known = with_acls(memory, intended)
    write_ledger(flow, target, after(known, plan.changes, set(made.done), plan.agreed, now))
    write_ledger(flow, target, given(flow, made.done, now))
    for record in undeclared(flow, memory.secrets):
        forget(flow, target, record)
    return MetadataResult(
        flow.name, plan.profile, made.done, (*plan.refused, *made.refused), plan.drift, plan.notes
    )


def _parts(flow: FlowSettings, state: MetadataState, ledger: Ledger) -> list[Part]:
    memory = ledger.metadata
    parts = [Part(refused=state.refused, notes=state.notes, unknown=state.unknown)]
    if state.configs is not None:
        parts.append(plan_topic_configs(flow, state.configs, memory.configs))
    if state.acls is not None:
        parts.append(plan_acls(flow, state.acls, memory.acls))
    if state.quotas is not None:
        parts.append(plan_quotas(flow, state.quotas.source, state.quotas.target, memory.quotas))
    if state.scram is not None:
        parts.append(plan_scram(flow, state.scram.source, state.scram.target, memory.secrets))
    return parts


def _respect_phase(flow: FlowSettings, ledger: Ledger) -> None:
    ours = flow.recovery_run and ledger.copies_for(
        flow.recovery_run
    )  # a failover asks what is pending, before its promotion
    if ledger.phase.out_of_service and not ours and flow.metadata.profile is not Profile.PROMOTED:
        raise TerminalError(
            f"{flow.name} is {ledger.phase.value}: profile {flow.metadata.profile.value} would take rights from"
            f" those who now work on {flow.target.alias}",
            hint="use profile promoted",
            code="promoted",
            flow=flow.name,
        )

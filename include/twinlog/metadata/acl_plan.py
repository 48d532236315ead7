"""Plan which ACLs to add to the target, and which of those that twinlog once added to take back.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from twinlog.cluster.admin.access_values import ANY_NAME, AclBinding
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import AclGrant, AclsAdded
from twinlog.metadata.acl_rules import AclScope, not_understood
from twinlog.metadata.values import AclChange, ChangeKind, Drift, GoneAcl, LeftOutAcl, Part


@dataclass(frozen=True, slots=True)
class AclState:
    """The ACLs of both clusters, and the source topics that the flow replicates."""

    source: tuple[AclBinding, ...]
    target: tuple[AclBinding, ...]
    topics: tuple[str, ...]


def plan_acls(flow: FlowSettings, state: AclState, memory: Iterable[AclsAdded]) -> Part:
    """Compare the ACLs that should be on the target with those that are, and with those that twinlog added."""
    remembered = {binding for record in memory for binding in bindings_of(record)}
    mm2 = flow.metadata.profile is Profile.MM2
    wanted, left_out, drift = _wanted(AclScope(flow, state.topics), state.source)
    there = set(state.target)
    stale = sorted((remembered - wanted - _reading(flow, state)) & there)
    emptied = bool(stale) and not state.source
    revoked = [] if mm2 or emptied else stale
    return Part(
        changes=(
            *(AclChange(binding, add=True) for binding in sorted(wanted - there, key=_deny_first)),
            *(AclChange(binding, add=False) for binding in revoked if binding.permission == "ALLOW"),
            *(AclChange(binding, add=False) for binding in revoked if binding.permission == "DENY"),
        ),
        drift=(*drift, *(_emptied(flow, binding) for binding in stale if emptied)),
        settled=tuple(GoneAcl(binding) for binding in sorted(remembered - wanted - there)),
        left_out=tuple(left_out),
        notes=tuple(_broad(flow, sorted(wanted - there))),
    )


def bindings_of(record: AclsAdded) -> tuple[AclBinding, ...]:
    """Return the ACLs of a ledger record."""
    resource = (record.resource_type, record.pattern, record.name)
    return tuple(
        AclBinding(*resource, grant.principal, grant.host, grant.operation, grant.permission)
        for grant in record.grants
    )


def records_of(bindings: Iterable[AclBinding], at_ms: int) -> tuple[AclsAdded, ...]:
    """Write ACLs as ledger records, one for each resource pattern."""
    by_resource: dict[tuple[str, str, str], list[AclGrant]] = {}
    for it in sorted(bindings):
        grants = by_resource.setdefault((it.resource_type, it.pattern, it.name), [])
        grants.append(AclGrant(it.principal, it.host, it.operation, it.permission))
    return tuple(AclsAdded(*resource, tuple(grants), at_ms) for resource, grants in by_resource.items())


def _wanted(
    scope: AclScope, source: Sequence[AclBinding]
) -> tuple[set[AclBinding], list[LeftOutAcl], list[Drift]]:
    wanted: set[AclBinding] = set()
    left_out: list[LeftOutAcl] = []
    drift: list[Drift] = []
    for binding in source:
        brought = scope.bring(binding)
        strange = next(not_understood(binding), "") if brought.bindings else ""
        if strange:
            drift.append(_not_sent(binding, strange))
        elif brought.bindings:
            wanted.update(brought.bindings)
        else:
            label = f"{binding.permission} {binding.right} on {binding.resource}"
            left_out.append(LeftOutAcl(label, brought.reason))
    return wanted, left_out, drift


def _reading(flow: FlowSettings, state: AclState) -> set[AclBinding]:
    """Return the readers' ACLs of profile `standby`: a promotion never takes them away, not for a moment."""
    if flow.metadata.profile is not Profile.PROMOTED:
        return set()
    standby = replace(flow, metadata=replace(flow.metadata, profile=Profile.STANDBY))
    return _wanted(AclScope(standby, state.topics), state.source)[0]


def _not_sent(binding: AclBinding, why: str) -> Drift:
    return Drift(
        ChangeKind.ACL, binding.resource, binding.right, binding.permission, None, f"{why}; not sent"
    )


def _deny_first(binding: AclBinding) -> tuple[bool, AclBinding]:
    return binding.permission == "ALLOW", binding


def _emptied(flow: FlowSettings, binding: AclBinding) -> Drift:
    """Keep the copies' ACLs if the source lost all of its own at once: it is more likely broken than tidied up."""
    return Drift(
        ChangeKind.ACL,
        binding.resource,
        binding.right,
        None,
        binding.permission,
        f"{flow.source.alias} shows no ACL at all: nothing is revoked on {flow.target.alias}",
    )


def _broad(flow: FlowSettings, new: Sequence[AclBinding]) -> Iterable[str]:
    """Name grants that reach beyond the copies: `*` stays `*` if the policy keeps topic names."""
    broad = [it for it in new if it.name == ANY_NAME and it.permission == "ALLOW"]
    if broad and flow.metadata.profile is not Profile.MM2:
        listed = ", ".join(f"{it.right} on {it.resource}" for it in broad)
        yield f"{listed}: on {flow.target.alias} that is more than the copies"

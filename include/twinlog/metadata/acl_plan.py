"""Decide which ACLs of the source belong on the target, and which of those once added are taken back.  Pure.

Profile `mm2` is MirrorSourceConnector's rule.  In the other profiles an ACL follows its topic, prefixes and `*`
included.  The rights of an ALLOW are cut down to the profile, those of a DENY never are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.cluster.admin.access_values import ANY_NAME, AclBinding
from twinlog.cluster.permissions.needs import principal
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import AclGrant, AclsAdded
from twinlog.grouped import grouped
from twinlog.metadata.values import AclChange, ChangeKind, Drift, LeftOutAcl, Part
from twinlog.visible import listed

READING: Mapping[str, Mapping[str, str]] = {
    "TOPIC": {
        "ALL": "READ",
        "READ": "READ",
        "DESCRIBE": "DESCRIBE",
        "DESCRIBE_CONFIGS": "DESCRIBE_CONFIGS",
    },
    "GROUP": {"ALL": "READ", "READ": "READ", "DESCRIBE": "DESCRIBE"},
}
"""Maps each operation that the source allows to its replacement in profile `standby`; others have to wait."""

OUR_TRANSACTIONS = "twinlog-"
OUR_TOPICS = "mm2-"
"""Beginning of the names of all topics in which flows keep their state, but for checkpoints."""

WAITS = "waits for profile promoted"
NOT_OURS = "the ledger says that twinlog made it, but this flow makes no such ACL: not revoked"


@dataclass(frozen=True, slots=True)
class Brought:
    """The result of an ACL of the source on the target: none, with the reason, or some ACLs.

    It is `refused` if a person has to see to it.
    """

    bindings: tuple[AclBinding, ...] = ()
    reason: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Covered:
    """The copies of the topics under a prefix, and whether these have one in common."""

    copies: tuple[str, ...]
    together: bool


@dataclass(frozen=True, slots=True)
class AclScope:
    """A flow, and the source topics that it replicates now."""

    flow: FlowSettings
    topics: tuple[str, ...]
    _covered: dict[str, Covered] = field(default_factory=dict, init=False, repr=False, compare=False)

    def bring(self, binding: AclBinding) -> Brought:
        """Return what one ACL of the source becomes on the target."""
        if self.flow.metadata.profile is Profile.MM2:
            return self._as_mm2(binding)
        place: Callable[[AclBinding], Brought] | None = {
            "TOPIC": self._topic,
            "GROUP": self._group,
            "TRANSACTIONAL_ID": self._transactional_id,
            "CLUSTER": self._cluster,
        }.get(binding.resource_type)
        if place is None:
            return Brought(reason=f"{binding.resource_type} is the target's own matter")
        placed = place(binding)
        if binding.permission == "DENY" or self.flow.metadata.profile is Profile.PROMOTED:
            return placed
        return self._read_only(placed)

    def could_make(self, binding: AclBinding) -> bool:
        """Say whether the flow could have made this ACL on the target: others may write to the ledger, too."""
        kind, name = binding.resource_type, binding.name
        if kind == "TOPIC":
            return self._about_copies(binding)
        if kind == "GROUP":
            return binding.permission == "DENY" or self.flow.groups.accepts(name)
        if kind == "TRANSACTIONAL_ID":
            return binding.permission == "DENY" or not name.startswith(OUR_TRANSACTIONS)
        return kind == "CLUSTER" and binding.operation == "IDEMPOTENT_WRITE"

    def _about_copies(self, binding: AclBinding) -> bool:
        """Say whether a topic's ACL is about copies, by the policy; with unchanged names, by the flow's filters."""
        name, every_copy = binding.name, self._remote("")
        if binding.pattern == "PREFIXED":
            return name.startswith(every_copy) and (bool(every_copy) or bool(self._under(name).copies))
        return self.is_copy(name) or (name == ANY_NAME and not every_copy)

    def is_copy(self, name: str) -> bool:
        """Say whether the flow may write a topic of this name on the target."""
        if any(self._remote(topic) == name for topic in self.topics):
            return True
        upstream = self.flow.policy.upstream_topic(name)
        if upstream is None or self._remote(upstream) != name:
            return False
        return bool(self._remote("")) or self.flow.why_left_out(upstream) is None

    def _read_only(self, placed: Brought) -> Brought:
        cut = tuple(
            replace(binding, operation=READING[binding.resource_type][binding.operation])
            for binding in placed.bindings
            if binding.operation in READING.get(binding.resource_type, {})
        )
        return Brought(cut, placed.reason if cut or placed.reason else WAITS)

    def _as_mm2(self, binding: AclBinding) -> Brought:
        """Keep literal topics, with `*` taken as a name; drop ALLOW WRITE, turn ALLOW ALL into READ, keep the rest."""
        allowed = binding.permission == "ALLOW"
        if binding.resource_type != "TOPIC" or binding.pattern != "LITERAL":
            return Brought(reason="MM2 syncs ACLs of single topics only")
        if allowed and binding.operation == "WRITE":
            return Brought(reason="MM2 drops WRITE")
        reason = self.flow.why_left_out(binding.name)
        if reason is not None:
            return Brought(reason=reason)
        operation = "READ" if allowed and binding.operation == "ALL" else binding.operation
        brought = replace(binding, name=self._remote(binding.name), operation=operation)
        if allowed and brought.name == ANY_NAME:
            return Brought(reason="it would reach the topics in which flows keep their state", refused=True)
        return Brought((brought,))

    def _topic(self, binding: AclBinding) -> Brought:
        if binding.pattern == "PREFIXED" or binding.name == ANY_NAME:
            return self._topics(binding, "" if binding.name == ANY_NAME else binding.name)
        reason = self.flow.why_left_out(binding.name)
        if reason is not None:
            return Brought(reason=reason)
        return Brought((replace(binding, name=self._remote(binding.name)),))

    def _topics(self, binding: AclBinding, prefix: str) -> Brought:
        """Bring an ACL of all topics that begin with `prefix`: as a prefix, if the copies have one in common.

        An ALLOW that would reach the flow's own topics as well is brought for each copy by itself.
        """
        covered = self._under(prefix)
        if prefix and not covered.copies and binding.permission == "ALLOW":
            return Brought(reason="the flow has no topic with this prefix")
        remote = self._remote(prefix)
        # If all names with this prefix came from the target, a DENY brought back would add an alias each time.
        came_from = self.flow.policy.topic_source(f"{prefix}x")
        if prefix and not covered.copies and remote != prefix and came_from == self.flow.target.alias:
            return Brought(reason=f"it is about copies from {self.flow.target.alias}")
        together = replace(binding, pattern="PREFIXED", name=remote) if remote else binding
        if covered.together and not (binding.permission == "ALLOW" and self._reaches_state(together)):
            return Brought((together,))
        one_each = tuple(replace(binding, pattern="LITERAL", name=copy) for copy in covered.copies)
        return Brought(one_each, "" if one_each else "the flow has no topic")

    def _reaches_state(self, binding: AclBinding) -> bool:
        """Say whether a prefix or `*` reaches topics of flows' state; applications may read checkpoints."""
        prefix = "" if binding.name == ANY_NAME else binding.name
        if OUR_TOPICS.startswith(prefix) or prefix.startswith(OUR_TOPICS):
            return True
        aliases = self.flow.aliases | {self.flow.source.alias, self.flow.target.alias}
        return binding.operation not in READING["TOPIC"].values() and any(
            self.flow.policy.checkpoints_topic(alias).startswith(prefix) for alias in aliases
        )

    def _under(self, prefix: str) -> Covered:
        """Find the topics under a prefix, once per prefix: many users have an ACL on the same one."""
        if prefix not in self._covered:
            copies = tuple(self._remote(topic) for topic in self.topics if topic.startswith(prefix))
            remote = self._remote(prefix)
            together = all(copy.startswith(remote) for copy in copies)
            self._covered[prefix] = Covered(copies, together)
        return self._covered[prefix]

    def _group(self, binding: AclBinding) -> Brought:
        if binding.permission == "DENY" or self.flow.groups.accepts(binding.name):
            return Brought((binding,))
        return Brought(reason="groups and groups.exclude leave it out")

    def _transactional_id(self, binding: AclBinding) -> Brought:
        if binding.name.startswith(OUR_TRANSACTIONS):
            return Brought(reason="it is for twinlog's own lanes")
        shorter = binding.pattern == "PREFIXED" and OUR_TRANSACTIONS.startswith(binding.name)
        if binding.permission == "DENY" or not (shorter or binding.name == ANY_NAME):
            return Brought((binding,))
        if binding.principal in {"User:*", principal(self.flow.target)}:
            return Brought(
                reason=f"it would reach twinlog's own ids, and to deny {OUR_TRANSACTIONS}* would stop twinlog: give the"
                " applications' ids by hand",
                refused=True,
            )
        ours = replace(binding, pattern="PREFIXED", name=OUR_TRANSACTIONS, permission="DENY")
        return Brought((ours, binding))

    def _cluster(self, binding: AclBinding) -> Brought:
        """Bring a cluster ACL: idempotent producing is the only right on a cluster that applications use."""
        if binding.operation in {"ALL", "IDEMPOTENT_WRITE"}:
            return Brought((replace(binding, operation="IDEMPOTENT_WRITE"),))
        return Brought(reason="rights on the cluster itself are the target's own matter")

    def _remote(self, name: str) -> str:
        return self.flow.policy.format_remote_topic(self.flow.source.alias, name)


def not_understood(binding: AclBinding) -> Iterator[str]:
    """Say what a target would not understand in an ACL: principal types other than users, unknown numbers."""
    kind = binding.principal.partition(":")[0]
    if kind != "User":
        yield f"Kafka's own authorizer knows principals of type User only, not {kind}"
    for word in (binding.resource_type, binding.pattern, binding.operation, binding.permission):
        if word.startswith("UNKNOWN("):
            yield f"{word} is not known to this release"


@dataclass(frozen=True, slots=True)
class AclState:
    """The ACLs of both clusters, the source topics that the flow replicates, and the topics of the target."""

    source: tuple[AclBinding, ...]
    target: tuple[AclBinding, ...]
    topics: tuple[str, ...]
    target_topics: tuple[str, ...] = ()


def plan_acls(flow: FlowSettings, state: AclState, memory: Iterable[AclsAdded]) -> Part:
    """Compare the ACLs that should be on the target with those that are, and with those that twinlog added."""
    remembered = {binding for record in memory for binding in bindings_of(record)}
    mm2 = flow.metadata.profile is Profile.MM2
    scope, there = AclScope(flow, state.topics), set(state.target)
    wanted, left_out, drift = _wanted(scope, state.source)
    gone = (remembered - wanted - _reading(flow, state)) & there
    stale = sorted(binding for binding in gone if scope.could_make(binding))
    # If the source lost all of its ACLs at once, it is more likely broken than tidied up.
    emptied = bool(stale) and not state.source
    broken = f"{flow.source.alias} shows no ACL at all: nothing is revoked on {flow.target.alias}"
    revoked = [] if mm2 or emptied else stale
    return Part(
        changes=(
            *(
                AclChange(binding, add=True)
                for binding in sorted(wanted - there, key=lambda it: (it.permission == "ALLOW", it))
            ),
            *(AclChange(binding, add=False) for binding in revoked if binding.permission == "ALLOW"),
            *(AclChange(binding, add=False) for binding in revoked if binding.permission == "DENY"),
        ),
        drift=(
            *drift,
            *(_kept(binding, broken) for binding in stale if emptied),
            *(_kept(binding, NOT_OURS) for binding in sorted(gone - set(stale))),
        ),
        agreed=tuple(AclChange(binding, add=False) for binding in sorted(remembered - wanted - there)),
        left_out=tuple(left_out),
        notes=tuple(_broad(flow, state, sorted(wanted - there))),
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
    by_resource = grouped(
        (
            (binding.resource_type, binding.pattern, binding.name),
            AclGrant(binding.principal, binding.host, binding.operation, binding.permission),
        )
        for binding in sorted(bindings)
    )
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
        if strange or brought.refused:
            why = f"{strange or brought.reason}; not sent"
            drift.append(
                Drift(ChangeKind.ACL, binding.resource, binding.right, binding.permission, None, why)
            )
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


def _kept(binding: AclBinding, why: str) -> Drift:
    return Drift(ChangeKind.ACL, binding.resource, binding.right, None, binding.permission, why)


def _broad(flow: FlowSettings, state: AclState, new: Sequence[AclBinding]) -> Iterable[str]:
    """Name grants that reach beyond the copies: prefixes that begin topics of the target's own, too."""
    copies = {flow.policy.format_remote_topic(flow.source.alias, topic) for topic in state.topics}
    others = [topic for topic in state.target_topics if topic not in copies]
    for binding in new:
        broad = binding.permission == "ALLOW" and binding.pattern == "PREFIXED"
        if broad and (more := [other for other in others if binding.is_about(other)]):
            yield f"{binding.right} on {binding.resource}: on {flow.target.alias} that is {listed(more)} as well"

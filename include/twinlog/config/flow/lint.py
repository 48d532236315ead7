"""Find lines that MM2 would silently drop or that are likely not meant.

A warning is about a line without the effect that its author expects.  A note is about a line that twinlog reads but
does not need; it is no mistake.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import permutations

from twinlog.config.file.java_keys import (
    CLIENT_KEYS,
    DRIVER_KEYS,
    ROLE_KEYS,
    SOURCE_CONNECTOR_KEYS,
    WORKER_KEYS,
)
from twinlog.config.file.keys import Home, declared_name
from twinlog.config.file.origin import Findings, Origin, Properties
from twinlog.config.flow.known_keys import KEYS, KNOWN_TO_CONNECTORS, LEFT, RENAMED, WHY_UNUSED, is_named
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.precedence import PASSED_BY_PREFIX, WORKER_PREFIXES
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.exposure import HELD, Reach, reach
from twinlog.policy.replication import IdentityReplicationPolicy, with_separator

CLOSE = 0.8
"""The similarity (difflib's ratio) from which one key is suggested for another."""

_RELAY_ROLES = {"consumer": "consumer", "producer": "producer"}
"""Roles that are judged on the side where the copy uses them: a cluster may be a source or a target."""

OURS = frozenset(name for name, key in KEYS.items() if key.home is Home.OURS)
OF_CLUSTERS = frozenset(name for name, key in KEYS.items() if key.home is Home.CLUSTER)
SIDES = ("source.", "target.")
OVERRIDES = ("producer.override.", "admin.override.", "consumer.override.")
CLIENT_ANYWHERE = frozenset().union(*ROLE_KEYS.values())


def lint(
    raw: Properties, aliases: tuple[str, ...], flows: tuple[FlowSettings, ...], findings: Findings
) -> None:
    """Add warnings and notes about every key of a file, and about flows that harm each other."""
    pairs = [f"{source}->{target}" for source, target in permutations(aliases, 2)]
    for key, value in raw.items():
        if key in aliases and value.text.startswith("->"):
            meant, _, rest = value.text.partition("=")
            line = f"{key}{''.join(meant.split())} = {rest.strip()}"
            findings.error(value.origin, "a blank ends a key, and this one was meant longer", f"write {line}")
            continue
        flow = _prefix(key, pairs)
        alias = _prefix(key, aliases)
        if flow:
            _flow_key(key.removeprefix(f"{flow}."), value.origin, findings)
        elif alias:
            _cluster_key(key.removeprefix(f"{alias}."), alias, value.origin, findings)
        elif not is_named(key):
            _top_level_key(key, value.origin, aliases, findings)
    for alias in dict.fromkeys(name for flow in flows for name in with_separator(flow.policy, aliases)):
        findings.warn(
            raw["clusters"].origin,
            f"the alias {alias} contains the separator: MM2 takes a part of it for the alias of its copies, twinlog the"
            " whole",
            "choose an alias without it, or another replication.policy.separator, if MM2 or its clients are in use",
        )
    _shared_offset_syncs(flows, findings)
    _synced_both_ways(flows, findings)
    if aliases and not any(flow.enabled for flow in flows):
        findings.warn(findings.missing(), "no flow is enabled", "add a line such as A->B.enabled = true")


def refuse_left(raw: Properties, aliases: tuple[str, ...], findings: Findings) -> None:
    """Raise ConfigError if a file has settings that left: one line for each, before the rest is judged."""
    owners = (*(f"{source}->{target}" for source, target in permutations(aliases, 2)), *aliases)
    left = {key: declared_name(key.removeprefix(f"{_prefix(key, owners)}.")) for key in raw}
    for key, name in left.items():
        if name in LEFT:
            findings.error(raw[key].origin, "has left twinlog", LEFT[name])
    if not LEFT.keys().isdisjoint(left.values()):
        findings.raise_if_unusable(strict=False)


def _prefix(key: str, names: Iterable[str]) -> str:
    """Return the longest of the names that prefixes the key; an alias may itself contain dots."""
    return max((name for name in names if key.startswith(f"{name}.")), key=len, default="")


def _flow_key(name: str, origin: Origin, findings: Findings) -> None:
    if _is_client_key(name):
        _client_key(name, origin, findings)
    elif is_named(name):
        return
    elif name in OF_CLUSTERS:
        findings.warn(origin, "is a property of a cluster, and ignored here", f"write it as A.{name}")
    elif name in KEYS and KEYS[name].home is not Home.WORKER:
        _known_key(name, origin, findings)
    elif name in WORKER_KEYS and name.startswith(WORKER_PREFIXES):
        findings.warn(
            origin, "a flow's keys do not reach the worker", f"write it as B.{name}, B being the target"
        )
    elif name in CLIENT_ANYWHERE:
        findings.warn(
            origin, "client properties need a role here", f"write source.consumer.{name} or the like"
        )
    elif name in SOURCE_CONNECTOR_KEYS:
        findings.note(origin, f"has no effect: {_TRANSACTIONS}")
    elif name.startswith(PASSED_BY_PREFIX):
        _passed_on(name, origin, findings)
    elif not name.startswith(("transforms.", "predicates.")):
        _unknown(name, origin, KEYS, findings, widens=True)


def _cluster_key(name: str, alias: str, origin: Origin, findings: Findings) -> None:
    if _is_client_key(name):
        _client_key(name, origin, findings)
    elif name in KEYS and KEYS[name].home in {Home.WORKER, Home.CLUSTER}:
        return
    elif name in CLIENT_KEYS:
        if _is_ignored(name):
            findings.note(origin, "has no effect here")
    elif name in WORKER_KEYS:
        findings.note(origin, "has no effect: there is no Connect worker")
    elif name in CLIENT_ANYWHERE:
        findings.warn(origin, "MM2 gives it to no client", f"write {alias}.consumer.{name} or the like")
    elif name in KEYS:
        findings.warn(origin, "is no property of a cluster", f"write it per flow: A->B.{name}")
    else:
        _unknown(name, origin, {*WORKER_KEYS, *CLIENT_ANYWHERE, *OF_CLUSTERS}, findings)


def _top_level_key(key: str, origin: Origin, aliases: tuple[str, ...], findings: Findings) -> None:
    if key in OURS or key in KNOWN_TO_CONNECTORS:
        _known_key(key, origin, findings)
        if key == "enabled":
            findings.warn(
                origin, "enables every flow that writes heartbeats", "enable flows one by one: A->B.enabled"
            )
    elif key in CLIENT_KEYS:
        if key == "bootstrap.servers":
            findings.warn(
                origin, "is the fallback of every cluster", "write it per cluster: A.bootstrap.servers"
            )
        elif _is_ignored(key):
            findings.note(origin, "has no effect here")
    elif key in KEYS.keys() - OF_CLUSTERS or key.startswith(PASSED_BY_PREFIX) or key in DRIVER_KEYS:
        _elsewhere(key, origin, findings)
    elif key.startswith(WORKER_PREFIXES) and key in WORKER_KEYS:
        findings.note(origin, "has no effect: there is no Connect worker")
    elif key.startswith(("transforms.", "predicates.", *OVERRIDES)) or key in SOURCE_CONNECTOR_KEYS:
        findings.warn(origin, _DROPPED, f"write it per flow: A->B.{key}")
    elif _is_client_key(key) or key in CLIENT_ANYWHERE | WORKER_KEYS | OF_CLUSTERS:
        of_worker = key in WORKER_KEYS and not _is_client_key(key)
        where = f"write it as B.{key}, B being the target" if of_worker else f"write it per cluster: A.{key}"
        findings.warn(origin, _DROPPED, where)
    else:
        _stranger(key, origin, aliases, findings)


def _elsewhere(key: str, origin: Origin, findings: Findings) -> None:
    """Judge a key that is no connector's: MM2's own, a policy's or a provider's, or one that belongs to a flow."""
    if key in DRIVER_KEYS and key != "clusters":
        findings.note(origin, "has no effect: there is no Connect REST server")
    elif key.startswith(PASSED_BY_PREFIX):
        _passed_on(key, origin, findings)
    elif key in KEYS and KEYS[key].home in {Home.FLOW_ONLY, Home.CONSUMER}:
        findings.warn(origin, _DROPPED, f"write it per flow: A->B.{key}")


_IGNORED = "is unknown and ignored, as by MM2"
_DROPPED = "MM2 silently drops it at the top level"
_TRANSACTIONS = "twinlog copies in transactions, exactly once"


def _known_key(name: str, origin: Origin, findings: Findings) -> None:
    if name in RENAMED:
        findings.warn(
            origin, "is the name of releases before 4.0 and ignored by MM2 since", f"write {RENAMED[name]}"
        )
    if name in WHY_UNUSED:
        findings.note(origin, f"has no effect: {WHY_UNUSED[name]}")


def _passed_on(name: str, origin: Origin, findings: Findings) -> None:
    """Warn of a key that a policy or a provider may read, if it is nearly one of ours: `replication.policy.clas`."""
    near = [] if name in KEYS else get_close_matches(name, KEYS, 1, CLOSE)
    if near:
        findings.warn(origin, _IGNORED, f"did you mean {near[0]}?")


def _is_client_key(name: str) -> bool:
    if name in WHY_UNUSED:  # consumer.poll.timeout.ms and admin.timeout.ms are the connectors' own
        return False
    bare = _bare(name)
    if bare.startswith("cluster.") and bare != name:
        return bare != "cluster.alias"
    return bare.startswith(tuple(f"{role}." for role in ROLE_KEYS))


def _bare(name: str) -> str:
    """Return a key of a flow without `source.` or `target.` in front."""
    return next((name.removeprefix(side) for side in SIDES if name.startswith(side)), name)


def _client_key(name: str, origin: Origin, findings: Findings) -> None:
    """Judge `consumer.x`, `source.consumer.x`, `producer.override.x` and `source.cluster.x`."""
    role, _, property_name = _bare(name).partition(".")
    property_name = property_name.removeprefix("override.")
    if role == "cluster":
        if property_name not in CLIENT_KEYS:
            findings.warn(origin, "MM2 takes only addresses and security from here", "give it to a role")
        elif _is_ignored(property_name):
            findings.note(origin, "has no effect here")
    elif property_name not in ROLE_KEYS[role]:
        _unknown(property_name, origin, ROLE_KEYS[role], findings)
    elif property_name in HELD:
        findings.note(origin, "has no effect: twinlog sets it itself, to copy exactly once")
    else:
        reached = reach(role, property_name, _RELAY_ROLES.get(role, ""))
        if reached is Reach.NEITHER:
            findings.note(origin, "has no effect here")
        elif reached is Reach.OTHERS and role != "admin":
            findings.note(
                origin,
                "does not reach the copy: only twinlog's own few records, or drills, follow it",
            )


def _is_ignored(name: str) -> bool:
    """Say whether no client, whatever its role, follows this property of addresses or security."""
    return all(reach(role, name, _RELAY_ROLES.get(role, "")) is Reach.NEITHER for role in ROLE_KEYS)


def _stranger(key: str, origin: Origin, aliases: tuple[str, ...], findings: Findings) -> None:
    """Warn of an unknown key: an alias or a flow that `clusters` does not name, or a typing error."""
    owner, _, rest = key.partition(".")
    source, arrow, target = owner.partition("->")
    missing = [name for name in (source, target) if arrow and name not in aliases]
    if missing:
        near = get_close_matches(missing[0], aliases, 1, CLOSE / 2)
        findings.warn(
            origin,
            f"{' and '.join(missing)} is not in clusters",
            f"did you mean {near[0]}?" if near else "add it there, or remove the line",
        )
    elif arrow:
        findings.warn(origin, "a flow leads from one cluster to another", "remove the line")
    elif rest in WORKER_KEYS | CLIENT_ANYWHERE or _is_client_key(rest):
        findings.warn(origin, f"{owner} is not in clusters", "add it there, or remove the line")
    else:
        _unknown(key, origin, {*KEYS, *CLIENT_KEYS, *DRIVER_KEYS}, findings)


def _unknown(
    name: str, origin: Origin, candidates: Iterable[str], findings: Findings, *, widens: bool = False
) -> None:
    """Judge a key that nobody knows.  One of a flow, or of `twinlog.`, is refused: without it a flow may copy more.

    Only what MM2's users are known to write, such as `emit.heartbeats` for `emit.heartbeats.enabled`, is ignored.
    """
    known = sorted(candidates)
    if f"{name}.enabled" in known:
        findings.warn(origin, _IGNORED, f"did you mean {name}.enabled?")
        return
    near = get_close_matches(name, known, 1, CLOSE)
    meant = f"did you mean {near[0]}?" if near else "remove it"
    if (widens or name.startswith("twinlog.")) and not findings.lenient:
        findings.error(origin, "is unknown (--lenient only warns)", meant)
    else:
        findings.warn(origin, _IGNORED, meant)


def _shared_offset_syncs(flows: tuple[FlowSettings, ...], findings: Findings) -> None:
    """Warn if two flows share one topic for offset syncs: its keys do not say which flow they belong to."""
    places = {flow.name: flow.offset_syncs_topic_location for flow in flows if flow.enabled}
    for name, place in places.items():
        source, _, target = name.partition("->")
        if place == "source" and places.get(f"{target}->{source}") == "target":
            findings.warn(
                findings.missing(),
                f"{name} and {target}->{source} write their offset syncs to the same topic on {source}",
                "give both the same offset-syncs.topic.location",
            )


def _synced_both_ways(flows: tuple[FlowSettings, ...], findings: Findings) -> None:
    """Warn if ACLs and quotas are synced both ways: neither flow can tell a source's own from those the other brought.

    Under profile `mm2` only topics' ACLs are synced, and these come back only if copies keep their topics' names.
    """
    enabled = {(flow.source.alias, flow.target.alias): flow for flow in flows if flow.enabled}
    for (source, target), flow in enabled.items():
        back = enabled.get((target, source))
        if back is None or source > target:
            continue
        pair = (flow, back)
        extended = all(settings.metadata.profile is not Profile.MM2 for settings in pair)
        same_names = all(isinstance(settings.policy, IdentityReplicationPolicy) for settings in pair)
        if all(settings.sync_topic_acls for settings in pair) and (extended or same_names):
            findings.warn(
                findings.missing(),
                f"{flow.name} and {back.name} both sync ACLs: what is revoked on one side can come back from the other",
                f"let one of them sync ACLs: {back.name}.sync.topic.acls.enabled = false",
            )
        if all(settings.metadata.quotas for settings in pair) and extended:
            findings.warn(
                findings.missing(),
                f"{flow.name} and {back.name} both sync quotas: what is deleted on one side can come back from the"
                " other",
                f"let one of them sync quotas: {back.name}.twinlog.sync.quotas.enabled = false",
            )

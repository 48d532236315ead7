"""Decide what the metadata sync remembers in the ledger, and whose settings it may follow.  Pure.

It follows the copied incarnations' settings and their cluster's, and no others.  A recreated topic has none of the
settings of the one before, and a recreated cluster has none at all.  If the sync followed them, it would remove
settings from the only copy there is, and its brokers would delete records that exist nowhere else.  All else stays as
it is, as the copy itself does (docs/decisions/0010-lives-of-topics.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.cluster.values import TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import AclsAdded, MetadataRecord, QuotasSet, TopicConfigsSet
from twinlog.metadata.acl_plan import bindings_of, records_of
from twinlog.metadata.values import (
    AclChange,
    ConfigChange,
    MetadataChange,
    QuotaChange,
)
from twinlog.state.ledger import Ledger, MetadataMemory
from twinlog.topics.incarnations import differ
from twinlog.topics.plan import Refusal

Owner = TypeVar("Owner")
Value = TypeVar("Value", str, float)


def intended_acls(
    memory: MetadataMemory, changes: Iterable[MetadataChange], at_ms: int
) -> tuple[AclsAdded, ...]:
    """Return what to write before ACLs are created: after a crash in between, each added ACL can still be revoked."""
    added = {change.binding for change in changes if isinstance(change, AclChange) and change.add}
    return _changed_acls(memory, _remembered(memory) | added, at_ms)


def after(
    memory: MetadataMemory,
    changes: Collection[MetadataChange],
    done: Collection[MetadataChange],
    at_ms: int,
) -> tuple[MetadataRecord, ...]:
    """Return what to write once `done` of the `changes` are made: the records that `memory` does not yet hold.

    What agrees on both sides, and is not yet remembered, is a change that is done.  `memory` knows of the ACLs that
    were to be added; those that were refused are forgotten.
    """
    acls = _remembered(memory)
    acls -= {
        change.binding
        for change in changes
        if isinstance(change, AclChange) and change.add == (change not in done)
    }
    configs = {config.remote_topic: config.configs for config in memory.configs}
    quotas = {QuotaEntity.of(quota.entity): quota.quotas for quota in memory.quotas}
    set_configs = [(it.topic, it.config, it.after) for it in done if isinstance(it, ConfigChange)]
    set_quotas = [(it.entity, it.key, it.after) for it in done if isinstance(it, QuotaChange)]
    return (
        *(TopicConfigsSet(topic, own, at_ms) for topic, own in _updated(configs, set_configs).items()),
        *_changed_acls(memory, acls, at_ms),
        *(QuotasSet(dict(it.parts), own, at_ms) for it, own in _updated(quotas, set_quotas).items()),
    )


def _remembered(memory: MetadataMemory) -> set[AclBinding]:
    return {binding for record in memory.acls for binding in bindings_of(record)}


def _resource(record: AclsAdded) -> tuple[str, str, str]:
    return record.resource_type, record.pattern, record.name


def _changed_acls(memory: MetadataMemory, bindings: set[AclBinding], at_ms: int) -> tuple[AclsAdded, ...]:
    before = {_resource(acl): acl for acl in memory.acls}
    now = {_resource(record): record for record in records_of(bindings, at_ms)}
    emptied = [
        AclsAdded(*resource, (), at_ms)
        for resource, it in before.items()
        if it.grants and resource not in now
    ]
    changed = [
        it for resource, it in now.items() if resource not in before or before[resource].grants != it.grants
    ]
    return (*changed, *emptied)


def _updated(
    before: Mapping[Owner, Mapping[str, Value]], values: Iterable[tuple[Owner, str, Value | None]]
) -> dict[Owner, dict[str, Value]]:
    """Put values into the memory, None removing one; return the owners whose memory changed."""
    now: dict[Owner, dict[str, Value]] = {}
    for owner, name, value in values:
        own = now.setdefault(owner, dict(before.get(owner, {})))
        if value is None:
            own.pop(name, None)
        else:
            own[name] = value
    return {owner: own for owner, own in now.items() if own != before.get(owner, {})}


def another_source(flow: FlowSettings, ledger: Ledger, cluster_id: str) -> Refusal | None:
    """Refuse everything while a topic of the flow was copied from a cluster other than the present source."""
    alias = flow.source.alias
    for topic, life in sorted(ledger.incarnations.items()):
        if flow.why_left_out(topic) is None and differ(life.source_cluster_id, cluster_id):
            return Refusal(
                f"settings of {alias}",
                "source-changed",
                f"{alias} is another cluster than the one {topic} was copied from: its id was"
                f" {life.source_cluster_id} and is {cluster_id}; nothing is changed on {flow.target.alias}",
                f"check {alias}.bootstrap.servers; if it is meant, rebuild the topics, and exclude those it lacks",
            )
    return None


def other_incarnation(
    flow: FlowSettings, ledger: Ledger, topic: str, source: TopicDescription, copy: TopicDescription
) -> Refusal | None:
    """Refuse the configs of a topic, or of a copy, that was recreated since it was copied."""
    known = ledger.incarnations.get(topic)
    if known is None:
        return None
    made_anew = {
        f"topic {topic} on {flow.source.alias}": differ(known.topic_id, source.topic_id),
        f"{copy.name}, its copy on {flow.target.alias},": differ(known.remote_topic_id, copy.topic_id),
    }
    which = next((name for name, is_so in made_anew.items() if is_so), None)
    if which is None:
        return None
    return Refusal(
        f"configs of {copy.name}",
        "recreated",
        f"{which} was deleted and created again; {copy.name} keeps its settings",
        f"`twinlog topics rebuild --topic {topic}` copies it anew, or set twinlog.on.recreated",
    )


def copied_incarnations(
    flow: FlowSettings,
    ledger: Ledger,
    source: Mapping[str, TopicDescription],
    copies: Mapping[str, TopicDescription],
) -> tuple[dict[str, TopicDescription], tuple[Refusal, ...]]:
    """Split copies (under their topics' names) into those whose configs follow, and refusals of the others."""
    refused = {
        topic: refusal
        for topic, copy in copies.items()
        if topic in source and (refusal := other_incarnation(flow, ledger, topic, source[topic], copy))
    }
    follow = {topic: copy for topic, copy in copies.items() if topic in source and topic not in refused}
    return follow, tuple(refused.values())

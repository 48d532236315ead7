"""Whether a saved metadata plan is still what people approved: each of its changes, held against the target of now.

Pure but for `read_touched`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.admin.access_values import AclBinding, Quotas, ScramCredential
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import ConfigSource, ConfigValue
from twinlog.metadata.scram_plan import iterations
from twinlog.metadata.values import (
    AclChange,
    ConfigChange,
    MetadataChange,
    QuotaChange,
    ScramChange,
    quota_text,
)


@dataclass(frozen=True, slots=True)
class Touched:
    """What the target has now of all that a plan touches."""

    configs: Mapping[str, Mapping[str, ConfigValue]]
    acls: frozenset[AclBinding]
    quotas: Quotas
    users: Mapping[str, tuple[ScramCredential, ...]]


def read_touched(changes: Collection[MetadataChange], target: ClusterReader) -> Touched:
    """Read what the changes touch.  Raises what refuses it: on doubt nothing is applied."""
    topics = {it.topic for it in changes if isinstance(it, ConfigChange)}
    return Touched(
        target.topic_configs(sorted(topics)).found,
        frozenset(target.describe_acls()) if _has(changes, AclChange) else frozenset(),
        target.describe_quotas() if _has(changes, QuotaChange) else {},
        target.describe_scram_users() if _has(changes, ScramChange) else {},
    )


def outdated(
    changes: Iterable[MetadataChange], now: Touched, fresh: Collection[MetadataChange] | None
) -> Iterator[str]:
    """Name each change that no longer fits, and why.

    A change fits when the target is as it was, and a `fresh` plan (None: the source is gone) still asks for it; or
    when it was made meanwhile.
    """
    for change in changes:
        there = state_of(change, now)
        row = change.row
        if there == row.after:
            continue
        if there != row.before:
            yield f"{row.label} is {there or 'not set'} by now, not {row.before or 'unset'}"
        elif fresh is not None and change not in fresh and not _renews(change):
            yield f"{row.label} would not be {row.action.value} to {row.after} any more"


def _renews(change: MetadataChange) -> bool:
    """Whether it gives a user the secret declared now: what a fresh plan no longer asks for was done meanwhile."""
    return isinstance(change, ScramChange) and change.renews


def state_of(change: MetadataChange, now: Touched) -> str | None:
    """Return what the target has where the change would be made, in the words of its row."""
    match change:
        case ConfigChange():
            entry = now.configs.get(change.topic, {}).get(change.config)
            return entry.value if entry is not None and entry.source is ConfigSource.TOPIC else None
        case AclChange():
            return change.binding.permission if change.binding in now.acls else None
        case QuotaChange():
            return quota_text(now.quotas.get(change.entity, {}).get(change.key))
        case ScramChange():
            found = iterations(now.users, change.user, change.credential.mechanism)
            return None if found is None else f"{found} iterations"


def _has(changes: Iterable[MetadataChange], kind: type) -> bool:
    return any(isinstance(change, kind) for change in changes)

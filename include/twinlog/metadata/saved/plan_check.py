"""Check whether a saved metadata plan is still as approved: each change is compared with the present target.

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
    """The present state on the target of all that a plan touches."""

    configs: Mapping[str, Mapping[str, ConfigValue]]
    acls: frozenset[AclBinding]
    quotas: Quotas
    users: Mapping[str, tuple[ScramCredential, ...]]


def read_touched(changes: Collection[MetadataChange], target: ClusterReader) -> Touched:
    """Read what the changes touch.  Raises what a cluster raises: if in doubt, nothing is applied."""
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

    A change fits if the target is as it was and a `fresh` plan still asks for it, or if it was made meanwhile.
    `fresh` is None if the source is gone; then only the target is compared.
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
    """Say whether a change gives a user the secret declared now; if a fresh plan lacks it, it was done meanwhile."""
    return isinstance(change, ScramChange) and change.renews


def state_of(change: MetadataChange, now: Touched) -> str | None:
    """Return the target's present value where the change would be made, as its row writes it."""
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

"""Make the changes of a metadata plan on the target, one by one: a refused change does not stop the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from twinlog.cluster.admin.access_values import AclBinding, ScramUser
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import Answers
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, TwinlogError
from twinlog.metadata.values import AclChange, ConfigChange, MetadataChange, QuotaChange, ScramChange
from twinlog.topics.plan import Refusal


@dataclass(frozen=True, slots=True)
class Applied:
    """Changes that were made, and those the target refused."""

    done: tuple[MetadataChange, ...]
    refused: tuple[Refusal, ...]


def make_changes(flow: FlowSettings, changes: Sequence[MetadataChange], target: Cluster) -> Applied:
    """Make changes in an order in which no DENY is ever missing and no user lacks a right in between.

    New DENYs come first, then new ALLOWs (none, if a DENY was refused), then stale ALLOWs go, and stale DENYs last.
    Raises ClusterUnreachable if the target stops answering; repeating all of it is safe.
    """
    acls = [it for it in changes if isinstance(it, AclChange)]
    errors: dict[MetadataChange, TwinlogError] = {}
    denials = _ask([it for it in acls if it.add and _denies(it)], target.create_acls)
    grants = [it for it in acls if it.add and not _denies(it)]
    errors |= denials
    errors |= {it: _held_back() for it in grants} if denials else _ask(grants, target.create_acls)
    errors |= _ask([it for it in acls if not it.add and not _denies(it)], target.delete_acls)
    errors |= _ask([it for it in acls if not it.add and _denies(it)], target.delete_acls)
    errors |= _set_configs(target, [it for it in changes if isinstance(it, ConfigChange)])
    errors |= _set_quotas(target, [it for it in changes if isinstance(it, QuotaChange)])
    errors |= _give_credentials(flow, target, [it for it in changes if isinstance(it, ScramChange)])
    return Applied(
        tuple(change for change in changes if change not in errors),
        tuple(Refusal.of(change.row.label, errors[change]) for change in changes if change in errors),
    )


Errors = Mapping[MetadataChange, TwinlogError]
Owner = TypeVar("Owner")
Setting = TypeVar("Setting", ConfigChange, QuotaChange)


def _denies(change: AclChange) -> bool:
    return change.binding.permission == "DENY"


def _held_back() -> TwinlogError:
    return ClusterRefused("held back: a DENY that belongs before it was refused", code="held-back")


def _ask(
    changes: Sequence[AclChange], ask: Callable[[Iterable[AclBinding]], Answers[AclBinding, None]]
) -> Errors:
    if not changes:
        return {}
    by_binding = {it.binding: it for it in changes}
    answers = ask(by_binding)
    return {by_binding[binding]: error for binding, error in answers.refused.items()}


def _set_configs(target: Cluster, changes: Iterable[ConfigChange]) -> Errors:
    return _set({(it.topic, it.config): it for it in changes}, target.alter_topic_configs)


def _set_quotas(target: Cluster, changes: Iterable[QuotaChange]) -> Errors:
    return _set({(it.entity, it.key): it for it in changes}, target.alter_quotas)


def _set(
    changes: Mapping[tuple[Owner, str], Setting],
    ask: Callable[[Mapping[Owner, Mapping[str, Any]]], Answers[tuple[Owner, str], None]],
) -> Errors:
    if not changes:
        return {}
    wanted: dict[Owner, dict[str, Any]] = {}
    for (owner, name), it in changes.items():
        wanted.setdefault(owner, {})[name] = it.after
    return {changes[item]: error for item, error in ask(wanted).refused.items()}


def _give_credentials(flow: FlowSettings, target: Cluster, changes: Sequence[ScramChange]) -> Errors:
    """Give users their declared credentials.

    A plan carries no secret; a user of a saved plan may no longer be declared, and is then refused.
    """
    declared = {(it.name, it.mechanism): it.password for it in flow.metadata.scram_users}
    known = [it for it in changes if (it.user, it.credential.mechanism) in declared]
    lost = [it for it in changes if it not in known]
    errors: dict[MetadataChange, TwinlogError] = {
        it: ClusterRefused(
            f"{it.user} is no longer in twinlog.scram.users with {it.credential.mechanism}",
            hint="make a new plan",
            code="undeclared",
        )
        for it in lost
    }
    for it in known:  # one user may get two mechanisms, and answers are by user
        secret = declared[it.user, it.credential.mechanism]
        answers = target.upsert_scram_users([ScramUser(it.user, it.credential, secret)])
        if it.user in answers.refused:
            errors[it] = answers.refused[it.user]
    return errors

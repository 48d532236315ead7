"""ACLs and quotas of the cluster in memory.

`acls` None: it has no authorizer.  ACLs bind nobody, as if twinlog's user were a super user, unless the cluster is
`open_to_everybody`: then it has allow.everyone.if.no.acl.found=true, and they bind that user.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity, Quotas
from twinlog.cluster.admin.quotas import QuotaItem
from twinlog.cluster.values import Answers
from twinlog.errors import ClusterRefused, TwinlogError

Item = TypeVar("Item", bound=Hashable)


class FakeAccess:
    """Who may do what.  `deny(verb, item, error)` lets a verb refuse an item, or as a whole where item is ""."""

    def __init__(self) -> None:
        self.acls: set[AclBinding] | None = set()
        self.open_to_everybody = False
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self._denied: dict[tuple[str, object], TwinlogError] = {}

    def deny(self, verb: str, item: object, error: TwinlogError) -> None:
        """Let `verb` refuse `item` from now on; "" refuses the verb itself."""
        self._denied[verb, item] = error

    def may(self, operation: str, topic: str) -> bool:
        """Say whether twinlog's user may do this with a topic, as StandardAuthorizer decides."""
        about = [it for it in self.acls or () if it.is_about(topic) and it.principal == "User:*"]
        if not self.open_to_everybody or not any(it.is_about(topic) for it in self.acls or ()):
            return True
        implying = {"READ", "WRITE", "DELETE", "ALTER"} if operation == "DESCRIBE" else set()
        if any(it.permission == "DENY" and it.operation in {operation, "ALL"} for it in about):
            return False
        return any(it.permission == "ALLOW" and it.operation in {operation, "ALL", *implying} for it in about)

    def describe_acls(self) -> tuple[AclBinding, ...]:
        """Return all ACLs, sorted."""
        self._stop("describe_acls")
        if self.acls is None:
            raise ClusterRefused("there is no authorizer", code="no-authorizer")
        return tuple(sorted(self.acls))

    def create_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        """Add ACLs."""
        wanted = list(bindings)
        refused = self._refused("create_acls", wanted)
        if self.acls is not None:
            self.acls |= set(wanted) - set(refused)
        return Answers({it: None for it in wanted if it not in refused}, refused)

    def delete_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        """Take ACLs away."""
        wanted = list(bindings)
        refused = self._refused("delete_acls", wanted)
        if self.acls is not None:
            self.acls -= set(wanted) - set(refused)
        return Answers({it: None for it in wanted if it not in refused}, refused)

    def describe_quotas(self) -> Quotas:
        """Return all quotas."""
        self._stop("describe_quotas")
        return {entity: dict(quotas) for entity, quotas in self.quotas.items() if quotas}

    def alter_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]
    ) -> Answers[QuotaItem, None]:
        """Set or remove quotas."""
        items = {(entity, key): value for entity, quotas in changes.items() for key, value in quotas.items()}
        refused = self._refused("alter_quotas", items)
        for (entity, key), value in items.items():
            if (entity, key) in refused:
                continue
            own = self.quotas.setdefault(entity, {})
            if value is None:
                own.pop(key, None)
            else:
                own[key] = value
        return Answers({item: None for item in items if item not in refused}, refused)

    def _stop(self, verb: str) -> None:
        if (verb, "") in self._denied:
            raise self._denied[verb, ""]

    def _refused(self, verb: str, items: Iterable[Item]) -> dict[Item, TwinlogError]:
        self._stop(verb)
        return {item: self._denied[verb, item] for item in items if (verb, item) in self._denied}

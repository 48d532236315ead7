"""What the readiness gate knows of rights, users, quotas and configs: what the metadata sync would still change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from twinlog.checks.check import Row
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.metadata import sync
from twinlog.metadata.values import ChangeKind, MetadataPlan


@dataclass(frozen=True, slots=True)
class MetadataFacts:
    """Changes that are pending on the target, by kind; None where nobody could look.

    `unknown` counts what could not be compared, item by item.
    """

    acls: int | None = None
    users: int | None = None
    quotas: int | None = None
    configs: int | None = None
    unknown: int | None = None

    @property
    def columns(self) -> Row:
        """The columns that checks look at."""
        return {
            "pending_acls": self.acls,
            "pending_users": self.users,
            "pending_quotas": self.quotas,
            "drifting_configs": self.configs,
            "metadata_unknown": self.unknown,
        }


def read(flow: FlowSettings, clusters: Clusters) -> MetadataFacts:
    """Plan the metadata sync and count; nothing is known where it cannot be planned.

    Raises ClusterUnreachable.
    """
    try:
        return facts_of(sync.make_plan(flow, clusters))
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return MetadataFacts()


def facts_of(plan: MetadataPlan) -> MetadataFacts:
    """Count what a plan would change, and differences of configs that it leaves.  Pure.

    Where nothing was found, and not everything could be read, nothing is known.
    """
    pending = Counter(change.row.kind for change in plan.changes)
    pending[ChangeKind.TOPIC_CONFIG] += sum(
        it.kind in {ChangeKind.TOPIC_CONFIG, ChangeKind.REPLICATION_FACTOR} for it in plan.drift
    )

    def known(kind: ChangeKind) -> int | None:
        return pending[kind] or (None if kind in plan.unknown else 0)

    return MetadataFacts(
        acls=known(ChangeKind.ACL),
        users=known(ChangeKind.SCRAM_USER),
        quotas=known(ChangeKind.QUOTA),
        configs=known(ChangeKind.TOPIC_CONFIG),
        unknown=len(plan.refused),
    )

"""What the readiness gate knows of ACLs, users, quotas and configs: the changes that the metadata sync would make."""

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
    """Changes that are pending on the target, by kind; None if that kind could not be read.

    `unknown` counts the items that could not be compared.
    """

    acls: int | None = None
    users: int | None = None
    quotas: int | None = None
    configs: int | None = None
    unknown: int | None = None

    @property
    def columns(self) -> Row:
        """Return the columns that checks look at."""
        return {
            "pending_acls": self.acls,
            "pending_users": self.users,
            "pending_quotas": self.quotas,
            "drifting_configs": self.configs,
            "metadata_unknown": self.unknown,
        }


def read(flow: FlowSettings, clusters: Clusters) -> MetadataFacts:
    """Plan the metadata sync and count its changes; if it cannot be planned, nothing is known.

    Raises ClusterUnreachable.
    """
    try:
        return facts_of(sync.make_plan(flow, clusters))
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return MetadataFacts()


def facts_of(plan: MetadataPlan) -> MetadataFacts:
    """Count the changes in a plan, and the config differences that it leaves.  Pure.

    If nothing was found, but not everything could be read, nothing is known.
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

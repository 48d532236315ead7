"""Plan client quotas: those of the source on the target; a quota there that twinlog did not set is kept.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.cluster.admin.access_values import QuotaEntity, Quotas
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import QuotasSet
from twinlog.metadata.values import (
    ChangeKind,
    Drift,
    Part,
    QuotaChange,
    ThreeWay,
    quota_text,
    three_way,
)


def plan_quotas(flow: FlowSettings, source: Quotas, target: Quotas, memory: Iterable[QuotasSet]) -> Part:
    """Compare every quota of both sides."""
    remembered = {QuotaEntity.of(record.entity): record.quotas for record in memory}
    changes: list[QuotaChange] = []
    drift: list[Drift] = []
    agreed: list[QuotaChange] = []
    for entity in sorted({*source, *target, *remembered}, key=str):
        wanted, there, once = (side.get(entity, {}) for side in (source, target, remembered))
        for key in sorted({*wanted, *there, *once}):
            match three_way(wanted.get(key), there.get(key), once.get(key)):
                case ThreeWay.CHANGE:
                    changes.append(QuotaChange(entity, key, there.get(key), wanted.get(key)))
                case ThreeWay.KEEP if entity in source or entity in remembered:
                    drift.append(_kept(flow, entity, key, wanted.get(key), there.get(key)))
                case ThreeWay.AGREED if once.get(key) != wanted.get(key):
                    agreed.append(QuotaChange(entity, key, there.get(key), wanted.get(key)))
    return Part(tuple(changes), tuple(drift), agreed=tuple(agreed))


def _kept(
    flow: FlowSettings, entity: QuotaEntity, key: str, wanted: float | None, there: float | None
) -> Drift:
    return Drift(
        ChangeKind.QUOTA,
        str(entity),
        key,
        quota_text(wanted),
        quota_text(there),
        f"set on {flow.target.alias}: kept; delete it there to follow {flow.source.alias} again",
    )

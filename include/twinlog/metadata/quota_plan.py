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
        sides = [side.get(entity, {}) for side in (source, target, remembered)]
        for key in sorted({key for side in sides for key in side}):
            wanted, there, once = (side.get(key) for side in sides)
            match three_way(wanted, there, once):
                case ThreeWay.CHANGE:
                    changes.append(QuotaChange(entity, key, there, wanted))
                case ThreeWay.KEEP if entity in source or entity in remembered:
                    drift.append(_kept(flow, entity, key, wanted, there))
                case ThreeWay.AGREED if once != wanted:
                    agreed.append(QuotaChange(entity, key, there, wanted))
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

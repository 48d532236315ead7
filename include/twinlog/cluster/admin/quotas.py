"""Read and change client quotas (KIP-546) by Kafka's requests: the client library has no calls for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog.cluster.admin.access_values import QuotaEntity, Quotas
from twinlog.cluster.portions import rounds
from twinlog.cluster.refusals import Asked, refused_by
from twinlog.cluster.values import Answers
from twinlog.errors import TwinlogError
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers

QuotaItem = tuple[QuotaEntity, str]
"""One quota: its entity and its key."""


def describe_quotas(brokers: Brokers) -> Quotas:
    """Return every client quota of a cluster.

    Raises ClusterRefused if this user may not read them.
    """
    answer = brokers.any_broker().call(kafka_python.DESCRIBE_CLIENT_QUOTAS, components=[], strict=False)
    if answer.error_code:
        asked = Asked(brokers.settings.alias, "read", "the client quotas", "DESCRIBE_CONFIGS on the cluster")
        raise refused_by(answer, asked)
    return {
        _entity(entry.entity): {item.key: item.value for item in entry.values}
        for entry in sorted(answer.entries or (), key=lambda entry: str(_entity(entry.entity)))
    }


def alter_quotas(
    brokers: Brokers, changes: Mapping[QuotaEntity, Mapping[str, float | None]]
) -> Answers[QuotaItem, None]:
    """Set quotas, or remove them (None); each is accepted or refused by itself."""
    refused: dict[QuotaItem, TwinlogError] = {}
    for part in rounds(changes):
        entries = [_entry(entity, *one) for entity, quotas in part.items() for one in quotas.items()]
        answer = brokers.any_broker().call(
            kafka_python.ALTER_CLIENT_QUOTAS, entries=entries, validate_only=False
        )
        for result in answer.entries:
            if result.error_code:
                entity = _entity(result.entity)
                (key,) = part[entity]
                asked = Asked(
                    brokers.settings.alias, "set", f"quota {key} of {entity}", "ALTER_CONFIGS on the cluster"
                )
                refused[entity, key] = refused_by(result, asked)
    items = [(entity, key) for entity, quotas in changes.items() for key in quotas]
    return Answers({item: None for item in items if item not in refused}, refused)


def _entity(data: Any) -> QuotaEntity:
    return QuotaEntity.of({part.entity_type: part.entity_name for part in data})


def _entry(entity: QuotaEntity, key: str, value: float | None) -> Any:
    entry = kafka_python.ALTER_CLIENT_QUOTAS.request.EntryData
    return entry(
        entity=[entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
        ops=[entry.OpData(key=key, value=value or 0.0, remove=value is None)],
    )

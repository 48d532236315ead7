"""Which ledgers on the source are those of flows from the target."""

from __future__ import annotations

import pytest

from twinlog.errors import FormatError
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import FlowClaim
from twinlog.kafka_types import ReadRecord
from twinlog.logs.reverse_ledgers import SourceLedger, sort_ledger

CLAIM = FlowClaim("west->east", "b-id", "a-id", 1)
LIFE = Incarnation("t", "id", 1, "t", source_cluster_id="b-id")
UNKNOWN = Incarnation("t", "id", 1, "t")


def found(alias: str, *records: LedgerRecord, target_id: str = "b-id", damage: bytes = b"") -> SourceLedger:
    """Sort a ledger found under `alias` for a flow to B."""
    ordered = [(it.key(), it.value()) for it in records] + ([(damage, damage)] if damage else [])
    latest = {key: ReadRecord(offset, 0, key, value) for offset, (key, value) in enumerate(ordered)}
    return sort_ledger(alias, latest, target_alias="B", target_cluster_id=target_id)


@pytest.mark.parametrize(
    ("alias", "records", "expected"),
    [
        ("west", (CLAIM,), (True, True)),
        ("west", (LIFE,), (True, True)),
        ("B", (FlowClaim("B->A", "other", "a-id", 1), LIFE), (False, True)),
        ("B", (UNKNOWN,), (True, False)),
        ("west", (UNKNOWN,), (False, False)),
        ("B", (), (True, False)),
    ],
)
def test_ids_tell_and_names_only_where_there_are_none(
    alias: str, records: tuple[LedgerRecord, ...], expected: tuple[bool, bool]
) -> None:
    """A ledger of the target's name may be another cluster's."""
    ledger = found(alias, *records)
    assert expected == (ledger.reverse, ledger.known)


def test_a_target_that_does_not_say_who_it_is_is_known_by_its_name() -> None:
    """As before there were ids."""
    assert [True, False] == [found(alias, CLAIM, target_id="").reverse for alias in ("B", "west")]


@pytest.mark.parametrize(("alias", "record"), [("west", CLAIM), ("B", UNKNOWN), ("C", UNKNOWN)])
def test_damage_stops_where_it_may_be_a_reverse_flows(alias: str, record: LedgerRecord) -> None:
    """A lane that is not recognised would be taken for the target's own producer."""
    with pytest.raises(FormatError):
        found(alias, record, damage=b"?")


def test_damage_of_anothers_ledger_is_no_matter() -> None:
    """It says itself whose it is."""
    assert not found("C", FlowClaim("C->A", "c-id", "a-id", 1), damage=b"?").reverse

"""JSON that others wrote is a value or a mistake, however deeply it is nested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import twinlog
from twinlog.errors import FormatError
from twinlog.formats.mm2.connect_offset import parsed_json
from twinlog.jsonable import from_json
from twinlog.schemas.values import canonical

DEEP = "[" * 100_000


def test_what_is_nested_too_deeply_is_no_json() -> None:
    """Python gives up with an error of its own, which ended `evidence verify` with 70."""
    with pytest.raises(json.JSONDecodeError, match="nested too deeply"):
        from_json(DEEP)
    with pytest.raises(FormatError, match="a key is not JSON"):
        parsed_json(DEEP.encode(), "a key")
    assert canonical(DEEP) == DEEP


PACKAGE = Path(twinlog.__file__).parent


@pytest.mark.parametrize("name", ["formats", "gate", "metadata", "migration", "schemas", "state", "client"])
def test_nothing_reads_foreign_json_in_another_way(name: str) -> None:
    """A ledger, a registry, a member of a group and a file are written by others."""
    lines = [line for path in (PACKAGE / name).rglob("*.py") for line in path.read_text().splitlines()]
    assert [] == [it for it in lines if "json.loads(" in it and "schema.more" not in it]

"""Schema registries that are real: what Apicurio's Confluent API takes over, and what it does not.

Cost: 30 to 100 s, nearly all of it the start of two registries.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests
from apicurio import IMPORTS_NOTHING, KNOWS_NO_MODES, running

from twinlog.config.security.connection import RegistrySettings
from twinlog.errors import TerminalError
from twinlog.policy.selection import NameFilter
from twinlog.schemas.apply import apply
from twinlog.schemas.client import Registry
from twinlog.schemas.plan import SchemaPlan, make_plan
from twinlog.schemas.sync import read_both

pytestmark = [pytest.mark.integration, pytest.mark.long]


def record(name: str, *fields: str, kind: Any = "int") -> str:
    """Return an Avro schema."""
    return json.dumps({
        "type": "record",
        "name": name,
        "fields": [{"name": it, "type": kind} for it in fields],
    })


def add(url: str, subject: str, schema: str, **more: Any) -> int:
    """Register as a client does, and return the id."""
    answer = requests.post(f"{url}/subjects/{subject}/versions", json={"schema": schema, **more}, timeout=30)
    assert answer.ok, answer.text
    return int(answer.json()["id"])


def registry(alias: str, url: str) -> Registry:
    """Return a client of a registry."""
    return Registry(RegistrySettings(alias, (url,)))


def plan_of(source: str, target: str, subjects: str = "orders-.*|common") -> SchemaPlan:
    """Read both, and plan."""
    both = read_both(registry("A", source), registry("B", target), NameFilter((subjects,)))
    return make_plan(both.source, both.target, "A", "B")


def test_a_registry_that_numbers_by_itself_keeps_ids_or_is_refused(tmp_path: Path) -> None:
    """Ids that come out the same are copied with all that belongs to them; the first other one ends it."""
    with running(IMPORTS_NOTHING, tmp_path, count=2) as (a, b):
        add(a, "common", record("common", "a"))
        add(a, "orders-value", record("order", "a"))
        add(a, "orders-value", record("order", "a", "b"))
        reference = {"name": "common", "subject": "common", "version": 1}
        add(a, "orders-key", record("key", "c", kind="common"), references=[reference])
        requests.put(f"{a}/config/orders-value", json={"compatibility": "FULL"}, timeout=30)
        requests.delete(f"{a}/subjects/orders-value/versions/1", timeout=30)
        plan = plan_of(a, b)
        assert [1, 2, 3, 4] == [it.version.id for it in plan.registrations]
        apply(plan, registry("B", b))
        assert SchemaPlan() == plan_of(a, b)
        with registry("B", b) as target:
            assert ((2,), (1, 2), "FULL", "READONLY") == (
                target.versions("orders-value", deleted=False),
                target.versions("orders-value", deleted=True),
                target.level("orders-value"),
                target.mode("orders-value"),
            )

        add(a, "else", record("else", "x"))
        assert 6 == add(a, "orders-new", record("new", "x"))
        with pytest.raises(
            TerminalError, match="gave id 5 to version 1 of orders-new, which has id 6"
        ) as caught:
            apply(plan_of(a, b), registry("B", b))
        assert "schema-ids" == caught.value.code
        assert ("common", "orders-key", "orders-value") == registry("B", b).subjects()

        add(b, "own", record("own", "x"))
        assert ["schema-id-taken"] == [it.code for it in plan_of(a, b).conflicts]


def test_a_registry_that_knows_no_modes_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """By its answer to the question for its mode."""
    with running(KNOWS_NO_MODES, tmp_path, count=1) as (url,), pytest.raises(TerminalError) as caught:
        plan_of(url, url)
    assert "schema-modes" == caught.value.code

"""Holds every document that a command writes in a test to docs/json/documents.schema.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from twinlog.cli import render
from twinlog.jsonable import to_json

FOLDER = Path(__file__).parents[2] / "docs" / "json"


def closed(name: str) -> dict[str, Any]:
    """Read a schema of docs/json, so that it takes no field that it does not have: those are for later releases."""
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    for part in _parts(schema):
        if "properties" in part and "type" in part:
            part["additionalProperties"] = False
    return schema


def _parts(found: Any) -> Iterator[dict[str, Any]]:
    if isinstance(found, dict):
        yield found
    for part in found.values() if isinstance(found, Mapping) else found if isinstance(found, list) else ():
        yield from _parts(part)


@cache
def documents() -> Draft202012Validator:
    """Return what every document of a command has to pass."""
    return Draft202012Validator(closed("documents"))


@pytest.fixture(autouse=True)
def documents_are_those_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command writes under --output json is what the schema says."""
    write, strange = render.document, list[str]()

    def noted(result: Any) -> str:
        if error := best_match(documents().iter_errors(to_json(result))):
            strange.append(f"{error.json_path}: {error.message}")
        return write(result)

    monkeypatch.setattr(render, "document", noted)
    yield
    assert [] == strange

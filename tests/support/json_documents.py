"""Holds every document that a command writes in a test to the shapes of docs/json.md."""

from __future__ import annotations

import runpy
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from twinlog.cli import render
from twinlog.jsonable import to_json

TOOL = Path(__file__).parents[2] / "docs" / "shape_tables.py"
ITEMS = ("flows", "accepted", "gaps", "runs", "records", "files")
"""Where a document has the shape once for each flow or item."""


@cache
def shapes() -> frozenset[frozenset[str]]:
    """The names of the fields of each document that the page describes."""
    return frozenset(frozenset(it.fields()) for it in runpy.run_path(str(TOOL))["ANSWERS"])


def unknown(document: Any) -> list[Mapping[str, Any]]:
    """Return what of a document is of no shape that the page has."""
    found = to_json(document)
    return [it for it in _parts(found) if not _failed(it) and frozenset(it) not in shapes()]


def _parts(found: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(found, list):
        yield from found
    elif set(found) <= {"flow", "passed", "version", *ITEMS} and (
        many := [it for it in ITEMS if it in found]
    ):
        yield from found[many[0]]
    else:
        yield found


def _failed(it: Mapping[str, Any]) -> bool:
    """A command, or a flow among several, that failed: it may lack fields of a shape, and has no others."""
    return it.get("error") is not None and any(
        set(it) <= shape for shape in shapes() | {frozenset({"error"})}
    )


@pytest.fixture(autouse=True)
def documents_are_those_of_the_page(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command writes under --output json is what docs/json.md says."""
    write, strange = render.document, list[Mapping[str, Any]]()

    def noted(result: Any) -> str:
        strange.extend(unknown(result))
        return write(result)

    monkeypatch.setattr(render, "document", noted)
    yield
    assert [] == [sorted(it) for it in strange]

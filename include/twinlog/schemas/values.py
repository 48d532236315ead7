"""Hold what schema registries know, as values.  Pure.

The words are those of Confluent's Schema Registry: a *subject* has *versions*; each is a schema with a global *id*, by
which consumers find it.  A *soft-deleted* version is not listed any more, but still found by its id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.jsonable import from_json

AVRO = "AVRO"
"""The type of a schema that does not say its type."""

_JSON_TYPES = frozenset({AVRO, "JSON"})

OTHER_CONTEXT = ":."
"""How names of subjects of a context other than the default one begin; ids of contexts are apart."""


class Mode(StrEnum):
    """Name a mode of a registry or of a subject.

    `READONLY`: nobody registers there.  `IMPORT`: whoever registers also says the id and the version.
    """

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    IMPORT = "IMPORT"


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one uses, by the name it has there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema.  `more` is the rest of what its registry keeps with it (metadata, rules), as JSON; "" for nothing."""

    text: str
    type: str = AVRO
    references: tuple[Reference, ...] = ()
    more: str = ""

    def same(self, other: Schema) -> bool:
        """Say whether both mean the same: spaces and the order of keys in JSON do not count."""
        return self._meaning == other._meaning

    @property
    def _meaning(self) -> tuple[str, str, tuple[Reference, ...], str]:
        text = canonical(self.text) if self.type in _JSON_TYPES else self.text
        return text, self.type, self.references, self.more


def canonical(text: str) -> str:
    """Return JSON in one spelling; a text that is no JSON as it is.  Pure."""
    try:
        return json.dumps(from_json(text), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject."""

    number: int
    id: int
    schema: Schema
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with all its versions by number; `level` and `mode` are its own, None where it has the registry's."""

    name: str
    versions: Mapping[int, Version] = field(default_factory=dict)
    level: str | None = None
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class Holdings:
    """Hold what one registry knows of the subjects asked for.

    `ids` are schemas by id, of those ids that were asked for; an id that is free is not there.  `level` and `mode` are
    the registry's own.
    """

    subjects: Mapping[str, Subject]
    ids: Mapping[int, Schema] = field(default_factory=dict)
    level: str | None = None
    mode: str = Mode.READWRITE.value

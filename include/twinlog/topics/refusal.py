"""A refusal: a row in a step's report of something it could not do on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from twinlog.errors import TwinlogError


@dataclass(frozen=True, slots=True)
class Refusal:
    """A topic or other item on the target that could not be, or was not, changed as it should be."""

    name: str
    code: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, name: str, error: TwinlogError) -> Self:
        """Make the refusal of `name` from an error."""
        return cls(name, error.code, error.message, error.hint)

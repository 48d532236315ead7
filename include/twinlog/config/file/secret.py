"""A value that must never be printed."""

from __future__ import annotations

from dataclasses import dataclass

MASK = "[hidden]"


@dataclass(frozen=True, slots=True)
class Secret:
    """Wraps a secret string: `str`, `repr` and formatting show a mask; `reveal()` gives the value."""

    _value: str

    def reveal(self) -> str:
        """Return the secret itself.  Call it only where a client is configured."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK})"


def reveal(value: str | Secret) -> str:
    """Return the plain string behind a property value."""
    return value.reveal() if isinstance(value, Secret) else value


def quoted(value: str | Secret) -> str:
    """Return a property value for an error message: in quotes, or masked."""
    return MASK if isinstance(value, Secret) else repr(value)

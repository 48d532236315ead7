"""Tell a process that follows for long when its configuration file has changed.

Nothing of it is taken up: clients, lanes and maps of a running process were made from what it had read.  A restart
takes it up, and with another process standing by that stops the copy for a moment only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.errors import TwinlogError
from twinlog.visible import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOK_SECONDS = 10.0
NAMED = 5


@dataclass(slots=True)
class ConfigWatch:
    """The file as this process has read it, and the newest line about it."""

    path: Path
    read: Mapping[str, str]
    _told: str = ""
    _next: float = field(default_factory=lambda: time.monotonic() + LOOK_SECONDS)

    @classmethod
    def of(cls, path: Path) -> ConfigWatch:
        """Remember what the file says now.  Raises ConfigError if it cannot be read."""
        return cls(path, values_of(path))

    def news(self) -> str:
        """Return a line if it is time to look and the file says something new; "" otherwise."""
        if time.monotonic() < self._next:
            return ""
        self._next = time.monotonic() + LOOK_SECONDS
        line = self.look()
        told, self._told = self._told, line
        return line if line != told else ""

    def look(self) -> str:
        """Return a line about the file as it is now, "" if it says what this process has read."""
        from twinlog.config.flow.load import load

        try:
            now = values_of(self.path)
            changed = changed_keys(self.read, now)
            if changed:
                load(self.path)
        except TwinlogError as error:
            first = error.message.splitlines()[0]
            goes_on = "so this process goes on with what it has read"
            return f"{self.path.name} cannot be used as it is now, {goes_on}: {first}"
        if not changed:
            return ""
        return f"{self.path.name} has changed ({listed(changed, NAMED)}): restart this process to take it up"


def values_of(path: Path) -> dict[str, str]:
    """Return the keys of a file with their texts.  Raises ConfigError if it cannot be read."""
    from twinlog.config.file import properties_file
    from twinlog.config.file.origin import Findings

    read = properties_file.read(path, Findings(path.name, elsewhere=True))
    return {key: it.text for key, it in read.properties.items()}


def changed_keys(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys that came, went or have another text, in order.  Pure."""
    return tuple(sorted(key for key in {*before, *now} if before.get(key) != now.get(key)))

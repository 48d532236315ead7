"""Say where the copy of a topic begins that a flow has never seen (`twinlog.start`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from twinlog import clock
from twinlog.config.file.keys import Kind
from twinlog.config.flow.values import Value


class StartKind(StrEnum):
    """Name how a beginning is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    MOMENT = "moment"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Start:
    """Where the copy of a topic begins.  `ms`: of a moment, since the epoch; of the last records, how far back."""

    kind: StartKind
    ms: int = 0

    def moment_ms(self, now_ms: int) -> int | None:
        """Return the time (epoch ms) of the first record to copy; None if it is the first or the next one there is."""
        if self.kind is StartKind.MOMENT:
            return self.ms
        return now_ms - self.ms if self.kind is StartKind.LAST else None


def parse_start(text: str) -> Start:
    """Read `earliest`, `latest`, a moment such as 2026-01-31T12:00:00Z, or how far back: 7d.  Raises ValueError."""
    if text in {StartKind.EARLIEST, StartKind.LATEST}:
        return Start(StartKind(text))
    if (seconds := clock.duration_seconds(text)) is not None:
        return Start(StartKind.LAST, seconds * 1000)
    if (moment := clock.moment_ms(text)) is not None:
        return Start(StartKind.MOMENT, moment)
    raise ValueError


_SAID = "is neither earliest, latest, a time such as 2026-01-31T12:00:00Z nor how far back, such as 7d"

START: Value[Start | None] = Value(Kind.STRING, lambda read, key: read.parsed(key, parse_start, _SAID))

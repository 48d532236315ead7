"""Name what can be cancelled: Spark jobs run on by themselves on a Connect server if their client is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Running(Protocol):
    """Spark jobs that run on by themselves on a Connect server if their client is gone."""

    def cancel(self) -> None:
        """Cancel them."""


OnStart = Callable[[Running], None]

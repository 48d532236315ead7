"""Keep connections to one cluster from one question to the next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from twinlog.config.security.connection import ConnectionSettings
from twinlog.protocol.brokers import Brokers

REST_SECONDS = 60.0
"""How long connections may rest between two questions before they are opened anew."""


class KeptBrokers:
    """Connections to one cluster that stay open from one question to the next, each lent to one caller at a time.

    A login may cost a token, and brokers and identity providers limit how often one may come.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._resting: list[tuple[Brokers, float]] = []

    @contextmanager
    def lent(self) -> Iterator[Brokers]:
        """Lend connections to the caller; after an error they are closed."""
        brokers = self._rested() or Brokers(self._settings)
        try:
            yield brokers
        except BaseException:
            brokers.close()
            raise
        brokers.forget_places()
        self._resting.append((brokers, time.monotonic()))

    def _rested(self) -> Brokers | None:
        """Take connections that were used lately: what lies between may drop those that were not, without notice."""
        with suppress(IndexError):  # another thread may take the last
            while True:
                brokers, since = self._resting.pop()
                if time.monotonic() - since < REST_SECONDS:
                    return brokers
                brokers.close()
        return None

    def close(self) -> None:
        """Close the connections that are not lent."""
        with suppress(IndexError):
            while True:
                self._resting.pop()[0].close()

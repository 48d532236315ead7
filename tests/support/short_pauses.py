"""Pauses are a fiftieth of their length here, and no marker is waited for: fakes need no time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from twinlog.lane import open_transactions
from twinlog.protocol import fetch_backoff


@pytest.fixture(scope="module", autouse=True)
def short_pauses() -> Iterator[None]:
    """Shorten what sleeps, and for how long a lost leader rests; other deadlines stay as they are."""
    sleep = time.sleep
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", lambda seconds: sleep(seconds / 50))
        for name in ("_FIRST_PAUSE_SECONDS", "_LONGEST_PAUSE_SECONDS"):
            patch.setattr(fetch_backoff, name, getattr(fetch_backoff, name) / 50)
        patch.setattr(
            open_transactions, "_PATIENCE_SECONDS", 0.0
        )  # markers of a fake are written at once or never
        yield

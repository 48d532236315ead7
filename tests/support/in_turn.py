"""Cases of a test that run in turn, a seventh of them each day, beside those that always do."""

from __future__ import annotations

from typing import Any

import pytest


def in_turn(*cases: Any) -> list[Any]:
    """Mark cases of one or of several parameters as `long`."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for case in cases
    ]

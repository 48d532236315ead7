"""How long ago something was, where clocks differ."""

import pytest

from twinlog.clock import CLOCKS_APART_MS, seconds_since

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (NOW - 1_500, 1.5),
        (NOW, 0.0),
        (NOW + CLOCKS_APART_MS, 0.0),
        (NOW + CLOCKS_APART_MS + 1, None),
        (None, None),
    ],
)
def test_an_age(at_ms, expected):
    """A clock may be ahead of ours by a little; what has yet to come has no age."""
    assert expected == seconds_since(at_ms, NOW)

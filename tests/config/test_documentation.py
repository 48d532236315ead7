"""docs/configuration.md and the loader tell the same story."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twinlog.config.file.keys import KEYS, Key

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
ROWS = dict(re.findall(r"^\| `([^`]+)` (\|.*)$", PAGE, re.MULTILINE))


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_every_key_is_documented_with_its_type_and_default(key: Key) -> None:
    """Name, type and default stand in one row."""
    default = "" if key.default is None else f"`{key.default}`" if key.default else "empty"
    assert f"| {key.kind} | {default} |" == ROWS[key.name][: len(f"| {key.kind} | {default} |")]


def test_no_documented_twinlog_key_is_unknown() -> None:
    """A key of ours that the page names is one that the loader reads."""
    named = set(re.findall(r"`(?:A->B\.)?(twinlog\.[a-z.]+)`", PAGE)) - {"twinlog.", "twinlog.key"}
    assert set() == named - set(KEYS)

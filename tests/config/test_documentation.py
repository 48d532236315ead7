"""docs/configuration.md and the loader tell the same story."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from twinlog.config.explain import explain
from twinlog.config.file.keys import Home, Key
from twinlog.config.flow.known_keys import KEYS, RENAMED, WHY_UNUSED
from twinlog.config.flow.load import resolve
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import keys_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "configuration.md").read_text()
TOOL = runpy.run_path(str(DOCS / "configuration_tables.py"))


def test_the_tables_are_those_of_the_code() -> None:
    """If they are not, `make reference` writes them."""
    assert PAGE == TOOL["written"](PAGE)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
def test_every_key_is_in_one_table_with_its_meaning(key: Key) -> None:
    """Whatever its home, and with each of its values if it is a choice."""
    first = rf"^\| (?:[^|]*, )?`{re.escape(key.name)}`(?:, [^|]*)? \|.*$"  # keys without effect share a row
    (row,) = re.findall(first, PAGE, re.MULTILINE)
    assert not row.endswith("|  |")
    choices = key.limits.removeprefix("one of ").split(", ") if key.limits.startswith("one of") else []
    assert [] == [it for it in choices if f"`{it}`" not in row]


def test_no_key_is_declared_twice() -> None:
    """The second declaration would win in silence."""
    names = [key.name for _, _, key in keys_of(FlowSettings)]
    assert (len(names), set()) == (len(set(names)), set(names) & set(WHY_UNUSED))


def test_explain_shows_every_key_that_has_an_effect(tmp_path: Path) -> None:
    """A key that is declared is read; those of a tier under its name."""
    text = "clusters=A,B\nA->B.enabled=true\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\n"
    file = tmp_path / "mm2.properties"
    file.write_text(f"{text}twinlog.tier.NAME.topics=t\n")
    flow = explain(resolve(file), ["A->B"]).flows[0]
    of_clusters = {
        name for name, key in KEYS.items() if key.home is Home.CLUSTER
    }  # shown for each of its ends
    elsewhere = {*RENAMED, "config.providers", *of_clusters}
    assert set(KEYS) - set(WHY_UNUSED) - elsewhere == {it.key for it in flow.values} & set(KEYS)


def test_no_documented_twinlog_key_is_unknown() -> None:
    """A key of ours that the page names is one that the loader reads."""
    named = set(re.findall(r"`(?:A->B\.)?(twinlog\.[a-z.]+)`", PAGE)) - {"twinlog.", "twinlog.key"}
    assert set() == named - set(KEYS)

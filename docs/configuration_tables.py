"""Write the tables of keys in configuration.md, from the settings that the code declares (`make reference`)."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

from twinlog.config.file.keys import Home, Key
from twinlog.config.flow.known_keys import KEYS, WHY_UNUSED
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import keys_of

PAGE = Path(__file__).with_name("configuration.md")
BETWEEN_MARKERS = re.compile(r"(<!-- keys: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
TABLES: dict[str, Callable[[Key], bool]] = {
    "flow": lambda key: key.home in {Home.CONNECTOR, Home.FLOW_ONLY} and key.name not in WHY_UNUSED,
    "storage": lambda key: key.home is Home.WORKER,
    "registry": lambda key: key.home is Home.CLUSTER,
    "consumer": lambda key: key.home is Home.CONSUMER,
    "twinlog": lambda key: key.home is Home.OURS,
}


def written(page: str) -> str:
    """Return the page with its tables as the code has them."""

    def tables(found: re.Match[str]) -> str:
        return f"{found[1]}{unused() if found[2] == 'unused' else table(found[2])}{found[3]}"

    return BETWEEN_MARKERS.sub(tables, page)


def table(name: str) -> str:
    """Return the table of some keys, in the order of the code."""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key in filter(TABLES[name], KEYS.values()):
        limits = f", {key.limits}" if key.limits and not key.limits.startswith("one of") else ""
        default = "" if key.default is None else f"`{key.default}`" if key.default else "empty"
        lines.append(f"| `{key.name}` | {key.kind}{limits} | {default} | {meanings()[key.name]} |")
    return "\n".join([*lines, ""])


def unused() -> str:
    """Return the table of keys without effect, a row for each reason."""
    by_reason: dict[str, list[str]] = {}
    for key in KEYS.values():
        if key.name in WHY_UNUSED:
            by_reason.setdefault(meanings()[key.name], []).append(f"`{key.name}`")
    rows = [f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()]
    return "\n".join(["| keys | why |", "|---|---|", *rows, ""])


@cache
def meanings() -> dict[str, str]:
    """Return what each key means: the docstring below the field that declares it, or why it has no effect."""
    return {key.name: docstrings(kind)[name] for kind, name, key in keys_of(FlowSettings)} | WHY_UNUSED


@cache
def docstrings(kind: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class."""
    body = ast.parse(inspect.getsource(kind)).body[0].body
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))

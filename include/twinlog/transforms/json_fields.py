"""Find fields of a JSON text by their paths, where they lie, so that nothing else of the text changes.  Pure.

A path is a list of names.  Where an array lies on its way, or at its beginning, the path goes on in each element.  A
name that occurs twice in an object is found twice, and a name is compared as it reads, not as it is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

Path = tuple[str, ...]
"""The names from the outermost object to a field."""

_space = re.compile(r"[ \t\n\r]*").match


class NotJsonError(ValueError):
    """Report a text that is no JSON (RFC 8259)."""


class TooDeepError(ValueError):
    """Report a JSON text that is nested too deeply to be read."""


@dataclass(slots=True)
class Tree:
    """The fields to be found; at a `leaf` the field as a whole, whatever it holds."""

    leaf: bool = False
    below: dict[str, Tree] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Tree:
        """Join paths into one tree."""
        root = cls()
        for path in paths:
            node = root
            for name in path:
                node = node.below.setdefault(name, cls())
            node.leaf = True
        return root


@dataclass(frozen=True, slots=True)
class Found:
    """A field of a text: its path, and where its value begins and ends."""

    path: Path
    start: int
    end: int


def find(text: str, tree: Tree) -> list[Found]:
    """Return the fields of `tree` in the order of the text, all of which is checked.

    Raises NotJsonError, or TooDeepError for a text that Python's own reader cannot hold.
    """
    found: list[Found] = []
    try:
        end = _value(text, _after_space(text, 0), tree, (), found)
    except RecursionError:
        raise TooDeepError from None
    if _after_space(text, end) != len(text):
        raise NotJsonError
    return found


def replaced(text: str, pieces: Iterable[tuple[Found, str]]) -> str:
    """Return the text with other values in the places of fields, which are in the order of the text."""
    parts: list[str] = []
    at = 0
    for it, value in pieces:
        parts += (text[at : it.start], value)
        at = it.end
    return "".join((*parts, text[at:]))


def content(written: str) -> str:
    """Return what a value of JSON says: the characters of a string, any other value as it is written."""
    return _string(written, 1)[0] if written.startswith('"') else written


def _value(text: str, at: int, tree: Tree, path: Path, found: list[Found]) -> int:
    """Read the value at a position; return where it ends."""
    if tree.leaf:
        end = _skip(text, at)
        found.append(Found(path, at, end))
        return end
    match text[at : at + 1]:
        case "{":
            return _object(text, at + 1, tree.below, path, found)
        case "[":
            return _array(text, at + 1, tree, path, found)
    return _skip(text, at)


def _object(text: str, at: int, below: Mapping[str, Tree], path: Path, found: list[Found]) -> int:
    at = _after_space(text, at)
    if text[at : at + 1] == "}":
        return at + 1
    while True:
        if text[at : at + 1] != '"':
            raise NotJsonError
        name, at = _string(text, at + 1)
        at = _after_space(text, at)
        if text[at : at + 1] != ":":
            raise NotJsonError
        at = _after_space(text, at + 1)
        node = below.get(name)
        at = _skip(text, at) if node is None else _value(text, at, node, (*path, name), found)
        at = _after_space(text, at)
        match text[at : at + 1]:
            case "}":
                return at + 1
            case ",":
                at = _after_space(text, at + 1)
            case _:
                raise NotJsonError


def _array(text: str, at: int, tree: Tree, path: Path, found: list[Found]) -> int:
    at = _after_space(text, at)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        at = _after_space(text, _value(text, at, tree, path, found))
        match text[at : at + 1]:
            case "]":
                return at + 1
            case ",":
                at = _after_space(text, at + 1)
            case _:
                raise NotJsonError


def _after_space(text: str, at: int) -> int:
    found = _space(text, at)
    return found.end() if found else at


def _string(text: str, at: int) -> tuple[str, int]:
    """Return the characters of a string whose content begins at a position, and where it ends."""
    try:
        read: tuple[str, int] = _scan_string(text, at)
    except ValueError:
        raise NotJsonError from None
    return read


def _refuse(_constant: str) -> NoReturn:
    raise NotJsonError


# Numbers are kept as text: they are not needed, and Python's own have a limit.
_decoder: Final[Any] = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
_scan: Final = _decoder.scan_once
_scan_string: Final = _decoder.parse_string


def _skip(text: str, at: int) -> int:
    """Return where the value that begins at a position ends."""
    try:
        end: int = _scan(text, at)[1]
    except (StopIteration, ValueError):
        raise NotJsonError from None
    return end


def paths_within(paths: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Yield each pair of paths of which the second lies within the first."""
    known = sorted(set(paths))
    for outer in known:
        for inner in known:
            if inner != outer and inner[: len(outer)] == outer:
                yield outer, inner

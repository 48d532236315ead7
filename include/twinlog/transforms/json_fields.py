"""Find fields of a JSON text by their paths, where they lie, so that nothing else of the text changes.  Pure.

A path is a list of names.  Where an array lies on its way, or at its beginning, the path goes on in each element.  A
name that occurs twice in an object is found twice, and a name is compared as it reads, not as it is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn

Path = tuple[str, ...]
"""The names from the outermost object to a field."""

_space: Final = re.compile(r"[ \t\n\r]*").match
_plain_name: Final = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
"""Matches a member's name that is written without escapes, and all up to its value."""
_separator: Final = re.compile(r"[ \t\n\r]*([,}\]])[ \t\n\r]*").match
"""Matches what stands between two members or elements, or behind the last; with the spaces."""


class NotJsonError(ValueError):
    """Report bytes that are no JSON (RFC 8259) in UTF-8."""


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


class Found(NamedTuple):
    """A field: its path, and where its value begins and ends."""

    path: Path
    start: int
    end: int


class Finder:
    """Finds the fields of a tree in one value after the other."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._tree = Tree.of(paths)

    def find(self, value: bytes) -> list[Found]:
        """Return the fields in the order of the value, all of which is checked; positions count bytes.

        Raises NotJsonError, or TooDeepError for a value that Python's own reader cannot hold.
        """
        found: list[Found] = []
        try:
            text = str(value, "utf-8")
            end = _value(text, _after_space(text, 0), self._tree, (), found)
        except UnicodeDecodeError:
            raise NotJsonError from None
        except RecursionError:
            raise TooDeepError from None
        if _after_space(text, end) != len(text):
            raise NotJsonError
        return found if text.isascii() else _in_bytes(text, found)


def _in_bytes(text: str, found: Iterable[Found]) -> list[Found]:
    at = at_bytes = 0
    counted = []
    for it in found:
        start = at_bytes + len(text[at : it.start].encode())
        at, at_bytes = it.end, start + len(text[it.start : it.end].encode())
        counted.append(Found(it.path, start, at_bytes))
    return counted


def replaced(value: bytes, pieces: Iterable[tuple[Found, bytes]]) -> bytes:
    """Return a value with other content in the places of fields, which are in its order."""
    parts: list[bytes] = []
    at = 0
    for it, made in pieces:
        parts += (value[at : it.start], made)
        at = it.end
    return b"".join((*parts, value[at:]))


def content(written: str) -> str:
    """Return what a value of JSON, without spaces around it, says: the characters of a string, else all of it."""
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
    more = True
    while more:
        name, at = _name(text, at)
        node = below.get(name)
        at = _skip(text, at) if node is None else _value(text, at, node, (*path, name), found)
        at, more = _behind(text, at, "}")
    return at


def _name(text: str, at: int) -> tuple[str, int]:
    """Return the name of the member at a position, and where its value begins."""
    if plain := _plain_name(text, at):
        return plain[1], plain.end()
    if text[at : at + 1] != '"':
        raise NotJsonError
    name, at = _string(text, at + 1)
    at = _after_space(text, at)
    if text[at : at + 1] != ":":
        raise NotJsonError
    return name, _after_space(text, at + 1)


def _array(text: str, at: int, tree: Tree, path: Path, found: list[Found]) -> int:
    at = _after_space(text, at)
    if text[at : at + 1] == "]":
        return at + 1
    more = True
    while more:
        at, more = _behind(text, _value(text, at, tree, path, found), "]")
    return at


def _behind(text: str, at: int, end: str) -> tuple[int, bool]:
    """Return where the next member or element begins, and True; or behind the `end` of all, and False."""
    found = _separator(text, at)
    if found is None or found[1] not in {",", end}:
        raise NotJsonError
    return (found.end(), True) if found[1] == "," else (found.end(1), False)


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

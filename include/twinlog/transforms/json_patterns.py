r"""Find fields of JSON by regular expressions, where it is written plainly; other texts are left to json_fields.

Plain is a text nested at most DEEPEST levels beside the fields' paths, with no array on these and no escaped name
beside them.  One expression skips all members up to the next field of a tree, and checks them, at the speed of C:

    {"id":1,"at":"2026","customer":{"name":"x","email":"y"},"n":[1,2]}
     `-- skipped -----'`- inner --'`- skipped' `- leaf ---'`- end ---'

Every quantifier is possessive and every alternative begins with another byte, so no text is read again and again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

DEEPEST: Final = 4

_SPACE: Final = rb"[ \t\n\r]*+"
_STRING: Final = rb'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_NAME: Final = rb'"[^"\\\x00-\x1f]*+"'
_NUMBER: Final = rb"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_SCALAR: Final = b"|".join((_STRING, _NUMBER, rb"true|false|null"))


def _value(deepest: int) -> bytes:
    """Return the expression of a value with at most so many levels of objects and arrays."""
    if not deepest:
        return b"(?:%s)" % _SCALAR
    inner = _value(deepest - 1)
    member = _STRING + _SPACE + b":" + _SPACE + inner + _SPACE
    members = b"(?:%s(?:,%s%s)*+)?+" % (member, _SPACE, member)
    elements = b"(?:%s%s(?:,%s%s%s)*+)?+" % (inner, _SPACE, _SPACE, inner, _SPACE)
    return rb"(?:%s|\{%s%s\}|\[%s%s\])" % (_SCALAR, _SPACE, members, _SPACE, elements)


_VALUE: Final = _value(DEEPEST)
_PLAIN_NAME: Final = re.compile(r'[^"\\\x00-\x1f]+')
_begin: Final = re.compile(_SPACE + rb"\{" + _SPACE).match
_inner_object: Final = re.compile(rb"\{" + _SPACE).match
_behind_inner: Final = re.compile(_SPACE + rb"([,}])" + _SPACE).match
_end: Final = re.compile(_SPACE + rb"\Z").match


@cache
def _whole_value() -> re.Pattern[bytes]:
    """Compiled when it is first needed: that takes 0.3 s, and most processes never look into a record."""
    return re.compile(_VALUE)


Span = tuple[tuple[str, ...], int, int]
"""A path, and where its value begins and ends."""


@dataclass(frozen=True, slots=True)
class PlainObject:
    """An object in which fields are looked for: a step leads behind the next of them, or behind the object's end.

    Of a leaf's name the groups are 1 (name), 2 (value) and 3 (what follows), of an inner object's name 4.
    """

    step: re.Pattern[bytes]
    names: Mapping[bytes, str]
    inner: Mapping[bytes, PlainObject]

    @classmethod
    def of(cls, leaves: list[str], inner: Mapping[str, PlainObject]) -> PlainObject | None:
        """Make the step for these names; None if one of them is never written plainly."""
        names = {name.encode("utf-8", "surrogatepass"): name for name in (*leaves, *inner)}
        if not all(map(_PLAIN_NAME.fullmatch, names.values())):
            return None
        leaf, below = (
            b"|".join(re.escape(it.encode("utf-8", "surrogatepass")) for it in some)
            for some in (leaves, inner)
        )
        wanted = b"|".join(it for it in (leaf, below) if it)
        other = b'(?!"(?:%s)")%s%s:%s%s%s' % (wanted, _NAME, _SPACE, _SPACE, _VALUE, _SPACE)
        ends = [rb"\}"]
        if leaf:
            ends.append(b'"(%s)"%s:%s(%s)%s([,}])%s' % (leaf, _SPACE, _SPACE, _VALUE, _SPACE, _SPACE))
        else:
            ends.append(rb"(?!)()()()")
        if below:
            ends.append(b'"(%s)"%s:%s' % (below, _SPACE, _SPACE))
        more = rb"(?:,%s(?!\})|(?=\}))" % _SPACE
        pattern = b"(?:%s%s)*+(?:%s)" % (other, more, b"|".join(ends))
        inner_bytes = {name.encode("utf-8", "surrogatepass"): it for name, it in inner.items()}
        return cls(re.compile(pattern), names, inner_bytes)

    def find(self, text: bytes) -> list[Span] | None:
        """Return the fields of a text in UTF-8, in its order; None if it is not written plainly, or no JSON."""
        begin = _begin(text)
        if begin is None:
            return None
        found: list[Span] = []
        end = self._members(text, begin.end(), (), found)
        return None if end is None or _end(text, end) is None else found

    def _members(self, text: bytes, at: int, path: tuple[str, ...], found: list[Span]) -> int | None:
        """Go through the members from a position on; return where the object ends, None if it is not plain."""
        first = True
        while True:
            step = self.step.match(text, at)
            if step is None:
                return None
            at = step.end()
            match step.lastindex:
                case None:
                    # Behind a comma there has to be a member: only an empty object ends without one.
                    return at if first or step[0] != b"}" else None
                case 3:
                    found.append(((*path, self.names[step[1]]), *step.span(2)))
                    following = step[3]
                case _:
                    end = self._inner(text, at, step[4], path, found)
                    behind = None if end is None else _behind_inner(text, end)
                    if behind is None:
                        return None
                    at, following = behind.end(), behind[1]
            if following == b"}":
                return at
            first = False

    def _inner(
        self, text: bytes, at: int, name: bytes, path: tuple[str, ...], found: list[Span]
    ) -> int | None:
        begin = _inner_object(text, at)
        if begin is not None:
            return self.inner[name]._members(text, begin.end(), (*path, self.names[name]), found)
        scalar = None if text[at : at + 1] == b"[" else _whole_value().match(text, at)
        return None if scalar is None else scalar.end()

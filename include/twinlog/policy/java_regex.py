r"""Java regular expressions, translated for Python's `regex` module.

The patterns of an mm2.properties file are java.util.regex.Pattern's (Java 17, no flags).  They are read by
Java's grammar and written anew, so that no difference in meaning can pass unseen:

- written out: letters, dots and classes (ASCII), `$` (also before a last line end), inline flags i and s,
  which hold to the end of their group and so reach later alternatives;
- kept: groups, look-around, atomic groups, reluctant and possessive quantifiers, back references;
- refused by name, with ConfigError: flags d m u U x, \G, \R, \X, \b{g}, \N{..}, the rarer \p{..}, and
  whatever Java itself does not accept.

`\b` counts ASCII letters, digits and `_` (as Java 19 and later; earlier ones also count other letters).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

import regex

from twinlog.errors import ConfigError
from twinlog.policy import java_charset as charset
from twinlog.policy.java_class import escaped_char, parse_class, parse_property, unquote
from twinlog.policy.java_source import Refused, Source

_LAST_LINE_END = r"(?:(?=(?:\r\n|[\r\u0085\u2028\u2029])?\Z)|(?<!\r)(?=\n\Z))"
_WORD = charset.WORD
_ANCHORS = {"^": r"\A", "$": _LAST_LINE_END}
_ESCAPED_ANCHORS = {
    "A": r"\A",
    "z": r"\Z",
    "Z": _LAST_LINE_END,
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}
_REFUSED_ESCAPES = {
    "G": "the end of the previous match",
    "R": "a line end",
    "X": "a grapheme cluster",
    "N": "a character by its Unicode name",
}
_GROUPS = {":": "(?:", "=": "(?=", "!": "(?!", ">": "(?>"}
_LOOK_BEHIND = {"=": "(?<=", "!": "(?<!"}


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    dot_all: bool = False


@functools.lru_cache(maxsize=1024)
def compile_java(pattern: str) -> regex.Pattern[str]:
    """Compile a Java regex; `.match(name)` on the result is Java's `matcher(name).matches()`.

    Raises ConfigError with the pattern and what is wrong with it.
    """
    return regex.compile(rf"\A(?:{translate(pattern)})\Z")


def translate(pattern: str) -> str:
    """Write a Java regex as one for the `regex` module (V0, no flags) that matches the same whole names.

    Raises ConfigError for what is not a Java regex, or cannot be given the same meaning.
    """
    try:
        return _Translation(Source(unquote(pattern))).whole()
    except Refused as refused:
        raise ConfigError(
            f"the regular expression {pattern!r} {refused}",
            hint="write it without that; patterns are Java's (java.util.regex)",
            pattern=pattern,
        ) from None


class _Translation:
    """One pass over a pattern, by recursive descent: alternatives, sequences, atoms and their quantifiers."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.flags = _Flags()
        self.groups = 0
        self.closed: set[int] = set()
        self.names: dict[str, int] = {}
        self.look_behind = 0

    def whole(self) -> str:
        text = self.alternatives()
        if self.source.more():
            raise Refused("has a ')' that closes nothing")
        return text

    def alternatives(self) -> str:
        """Read alternatives; flags set in one hold in the later ones, Java restores them after the group."""
        texts = [self.sequence()]
        while self.source.took("|"):
            texts.append(self.sequence())
        return "|".join(texts)

    def sequence(self) -> str:
        parts: list[str] = []
        while self.source.more() and self.source.peek() not in "|)":
            parts.append(self.quantified())
        return "".join(parts)

    def quantified(self) -> str:
        source = self.source
        if source.peek() in "*+?":
            raise Refused(f"has a {source.peek()!r} with nothing before it to repeat")
        if source.peek() == "{":
            raise Refused("has a '{' that repeats nothing; a literal one is written \\{")
        atom, repeatable = self.atom()
        quantifier = self.quantifier()
        if not quantifier:
            return atom
        if not repeatable:
            raise Refused("repeats something that has no width, or a flag")
        if source.more() and source.peek() in "*+?{":
            raise Refused("has two quantifiers in a row")
        return atom + quantifier

    def quantifier(self) -> str:
        found = self.source.match(r"[*+?]|\{(\d+)(,(\d*))?\}")
        if found is None:
            if self.source.more() and self.source.peek() == "{":
                raise Refused("has a '{' that is no repetition; a literal one is written \\{")
            return ""
        if found[1] and found[3] and int(found[3]) < int(found[1]):
            raise Refused(f"has the impossible repetition {found[0]}")
        unbounded = found[0] in "*+" or (found[2] is not None and not found[3])
        if self.look_behind and unbounded:
            raise Refused("looks behind over an unbounded length")
        mode = self.source.match(r"[?+]")
        return found[0] + (mode[0] if mode else "")

    def atom(self) -> tuple[str, bool]:
        """One atom's text, and whether it may be repeated."""
        source, ignore_case = self.source, self.flags.ignore_case
        char = source.take()
        if char == "(":
            return self.group()
        if char == "[":
            return parse_class(source, ignore_case).text, True
        if char == "\\":
            return self.escape()
        if char in _ANCHORS:
            return _ANCHORS[char], False
        if char == ".":
            return charset.dot(self.flags.dot_all).text, True
        return charset.single(ord(char), ignore_case).text, True

    def escape(self) -> tuple[str, bool]:
        source = self.source
        char = source.peek_or_refuse("ends in a backslash")
        if char in "pP":
            return parse_property(source, self.flags.ignore_case).text, True
        if char.lower() in charset.PREDEFINED:
            return charset.predefined(source.take()).text, True
        if char in "k123456789":
            return self.back_reference(), True
        if char in _REFUSED_ESCAPES:
            raise Refused(f"uses \\{char} ({_REFUSED_ESCAPES[char]})")
        if source.took("b{"):
            raise Refused("uses \\b{g} (a grapheme cluster boundary)")
        if char in _ESCAPED_ANCHORS:
            return _ESCAPED_ANCHORS[source.take()], False
        return charset.single(escaped_char(source), self.flags.ignore_case).text, True

    def reference_by_number(self) -> int:
        """Java takes as many digits as make the number of a group opened so far."""
        number = int(self.source.take())
        while self.source.more() and self.source.peek() in "0123456789":
            longer = number * 10 + int(self.source.peek())
            if longer > self.groups:
                break
            number = longer
            self.source.take()
        return number

    def reference_by_name(self) -> int:
        found = self.source.match(r"k<([a-zA-Z][a-zA-Z0-9]*)>")
        if found is None or found[1] not in self.names:
            raise Refused("refers back to a group that has no such name before it")
        return self.names[found[1]]

    def back_reference(self) -> str:
        by_name = self.source.peek() == "k"
        number = self.reference_by_name() if by_name else self.reference_by_number()
        if number not in self.closed:
            raise Refused(f"refers back to group {number}, which is not closed before it")
        if self.flags.ignore_case:
            raise Refused("refers back to a group while ignoring case")
        if self.look_behind:
            raise Refused("looks behind over an unbounded length")
        return f"(?:\\{number})"

    def group(self) -> tuple[str, bool]:
        source = self.source
        if not source.took("?"):
            return self.capture(), True
        kind = source.take_or_refuse("has a '(?' without an end")
        if kind in _GROUPS:
            return self.enclosed(_GROUPS[kind]), kind in ":>"
        if kind == "<":
            return self.angle()
        return self.flag_group(kind)

    def angle(self) -> tuple[str, bool]:
        """`(?<=`, `(?<!` or `(?<name>`."""
        sign = self.source.take_or_refuse("has a '(?<' without an end")
        if sign in _LOOK_BEHIND:
            self.look_behind += 1
            text = self.enclosed(_LOOK_BEHIND[sign])
            self.look_behind -= 1
            return text, False
        rest = self.source.match(r"[a-zA-Z0-9]*>")
        if rest is None or re.match("[a-zA-Z]", sign) is None:
            raise Refused("has a group name that is not letters and digits")
        name = sign + rest[0][:-1]
        if name in self.names:
            raise Refused(f"names two groups {name!r}")
        self.names[name] = self.groups + 1
        return self.capture(), True

    def capture(self) -> str:
        self.groups += 1
        number = self.groups
        text = self.enclosed("(")
        self.closed.add(number)
        return text

    def flag_group(self, first: str) -> tuple[str, bool]:
        """`(?i)`, `(?i-s)` hold to the end of the enclosing group, `(?i:...)` inside their own."""
        rest = self.source.match(r"[a-zA-Z-]*[:)]")
        letters = first + rest[0] if rest else first
        found = re.fullmatch(r"([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])", letters)
        if found is None:
            raise Refused(f"has a group (?{letters}, which Java does not know")
        flags = _with(_with(self.flags, found[1], True), found[2] or "", False)
        if found[3] == ")":
            self.flags = flags
            return "", False
        return self.enclosed("(?:", flags), True

    def enclosed(self, opening: str, flags: _Flags | None = None) -> str:
        """Read what a group holds, up to its ')'; flags set inside end with it."""
        outer = self.flags
        self.flags = flags or outer
        text = self.alternatives()
        if not self.source.took(")"):
            raise Refused("has a '(' that is never closed")
        self.flags = outer
        return f"{opening}{text})"


def _with(flags: _Flags, letters: str, value: bool) -> _Flags:
    known: dict[str, Callable[[_Flags], _Flags]] = {
        "i": lambda old: replace(old, ignore_case=value),
        "s": lambda old: replace(old, dot_all=value),
    }
    for letter in letters:
        if letter not in known:
            _refuse_flag(letter)
        flags = known[letter](flags)
    return flags


def _refuse_flag(letter: str) -> NoReturn:
    raise Refused(f"uses the flag {letter!r}; only i (ignore case) and s (dot matches all) are translated")

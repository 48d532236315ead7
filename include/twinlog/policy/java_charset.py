"""Java's character classes as text for the `regex` module: every expression matches exactly one character.

Letters, digits and the predefined classes mean ASCII, as in Java's Pattern without its Unicode flags.
Nothing here relies on a flag of the `regex` module: upper and lower case are spelled out.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass

import regex

LINE_ENDS = r"\n\r\u0085\u2028\u2029"
ANY = r"[\x00-\U0010FFFF]"
WORD = "[A-Za-z0-9_]"

_SPACE = r"\x20\t\n\x0B\f\r"
_PUNCT = "".join(f"\\x{ord(char):02X}" for char in string.punctuation)

# Escapes \d, \w ...: what stands between the brackets; the capital letter is the complement.
PREDEFINED = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": _SPACE,
    "h": r"\x20\xA0\u1680\u180E\u2000-\u200A\u202F\u205F\u3000",
    "v": r"\n\x0B\f\r\u0085\u2028\u2029",
}

# \p{...} of POSIX, ASCII only (Pattern, "POSIX character classes").
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "A-Za-z0-9",
    "Punct": _PUNCT,
    "Graph": r"\x21-\x7E",
    "Print": r"\x20-\x7E",
    "Blank": r"\x20\t",
    "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9A-Fa-f",
    "Space": _SPACE,
}

# General categories both sides define alike.  Not C and Cn: what is unassigned depends on the release.
_CATEGORIES = re.compile("L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo]")


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of characters: a union of what stands in brackets (`a-z0-9`) and of whole expressions."""

    body: str = ""
    others: tuple[str, ...] = ()

    def union(self, other: CharSet) -> CharSet:
        """Characters of either."""
        return CharSet(self.body + other.body, self.others + other.others)

    def intersection(self, other: CharSet) -> CharSet:
        """Characters of both: look at the next one, then take it."""
        return CharSet(others=(f"(?:(?={self.text}){other.text})",))

    def complement(self) -> CharSet:
        """Every other character, line ends included."""
        if self.others:
            return CharSet(others=(f"(?:(?!{self.text}){ANY})",))
        return CharSet(others=(f"[^{self.body}]",))

    @property
    def text(self) -> str:
        """The expression that matches one character of the set."""
        alternatives = ((f"[{self.body}]",) if self.body else ()) + self.others
        return alternatives[0] if len(alternatives) == 1 else f"(?:{'|'.join(alternatives)})"


def char(code: int) -> str:
    """Spell a code point so that it is itself inside and outside brackets."""
    text = chr(code)
    if text.isascii() and text.isalnum():
        return text
    return f"\\x{code:02X}" if code < 0x100 else f"\\U{code:08X}"


def single(code: int, ignore_case: bool) -> CharSet:
    """One character; without UNICODE_CASE, ignoring case is for ASCII letters only."""
    return span(code, code, ignore_case)


def span(first: int, last: int, ignore_case: bool) -> CharSet:
    """Characters first..last, and the other case of the ASCII letters among them."""
    spans = [(first, last)]
    if ignore_case:
        for low, high, shift in ((0x41, 0x5A, 0x20), (0x61, 0x7A, -0x20)):
            start, end = max(first, low), min(last, high)
            if start <= end:
                spans.append((start + shift, end + shift))
    return CharSet("".join(char(a) if a == b else f"{char(a)}-{char(b)}" for a, b in spans))


def predefined(letter: str) -> CharSet:
    r"""\d, \D, \w ...; the caller has checked the letter."""
    chars = CharSet(PREDEFINED[letter.lower()])
    return chars.complement() if letter.isupper() else chars


def dot(any_char: bool) -> CharSet:
    """`.`: all but the five line ends, or really all with the flag s."""
    return CharSet(others=(ANY,)) if any_char else CharSet(LINE_ENDS).complement()


def named(name: str) -> CharSet | None:
    r"""\p{name}: POSIX, a general category (`Lu`, `IsLu`) or a script (`IsLatin`); None for anything else."""
    if name in _POSIX:
        return CharSet(_POSIX[name])
    bare = name.removeprefix("Is")
    if _CATEGORIES.fullmatch(bare):
        return CharSet(f"\\p{{{bare}}}")
    if bare != name and _is_script(bare):
        return CharSet(f"\\p{{Script={bare}}}")
    return None


def _is_script(name: str) -> bool:
    if not name.isascii() or not name.replace("_", "").isalpha():
        return False
    try:
        regex.compile(f"\\p{{Script={name}}}")
    except regex.error:
        return False
    return True

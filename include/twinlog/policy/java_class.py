r"""Translate characters, classes and brackets of Java's regular expressions into expressions for one character.

Letters, digits and the predefined classes are ASCII, as in Java without its Unicode flags.  The translation relies on
no flag of `regex`: both cases are spelled out.  Negated and nested sets of `regex` are not used either, because
`regex` takes `[^0]|[^1]` for `[^01]`.
"""

from __future__ import annotations

import re

import regex

# One escaped character, quoted text of several, and a class; for re.VERBOSE.
ESCAPE = r"""\\(?: x[0-9a-fA-F]{2} | x\{[0-9a-fA-F]{1,6}\} | u[0-9a-fA-F]{4} | 0(?:[0-3][0-7]{2}|[0-7]{1,2})
    | c[A-Z] | [tnrfae] | [^a-zA-Z0-9] )"""
QUOTED = r"\\Q(?P<text>(?:(?!\\E).)++)(?:\\E)?+"
CLASS = r"\\(?: [dDwWsShHvV] | [pP](?:\{[a-zA-Z_]+\}|[A-Z]) )"
ANY = r"[\x00-\U0010FFFF]"
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_SETS = r"""
\d:0-9  \w:A-Za-z0-9_  \s:\x20\t\n\x0B\f\r  \v:\n\x0B\f\r\x85\u2028\u2029
\h:\x20\t\xA0\u1680\u180E\u2000-\u200A\u202F\u205F\u3000
Lower:a-z  Upper:A-Z  Alpha:A-Za-z  Digit:0-9  Alnum:A-Za-z0-9  XDigit:0-9A-Fa-f  ASCII:\x00-\x7F
Punct:!-/:-@\[-`{-\~  Graph:!-\~  Print:\x20-\~  Blank:\x20\t  Space:\x20\t\n\x0B\f\r  Cntrl:\x00-\x1F\x7F
"""
_CLASSES = dict(pair.split(":", 1) for pair in _SETS.split())
# General categories that both sides define alike.  Not C and Cn: unassigned characters depend on the release.
_CATEGORY = re.compile("(?:Is)?(L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo])")


def _inside(literals: str) -> re.Pattern[str]:
    one = rf"(?>{ESCAPE}|[^\\\[&{literals}]|&(?!&))"
    return re.compile(
        rf"""(?P<bracket>\[) | (?P<both>&&(?![&^])) | (?P<range>(?P<first>{one})-(?P<last>{ESCAPE}|[^\\\[\]]))
        | (?:(?P<class>{CLASS})|(?P<quoted>{QUOTED}))(?!-[^\]]) | (?P<one>{one})(?!-[^\[\]]) | (?P<end>\])""",
        re.VERBOSE | re.DOTALL,
    )


_INSIDE, _FIRST_INSIDE = _inside(r"\]"), _inside("")  # a ']' right at the beginning is a character
_SIDES = re.compile("[cb]+(?:&(?:c+|b+))*")  # characters, brackets, &&; Java treats other shapes oddly


class Refused(Exception):
    """Report why a pattern is not translated; the text continues the words "the regular expression '...'"."""


def bracket(text: str, begin: int, ignore_case: bool) -> tuple[str, int]:
    """Translate the bracket expression that begins at `begin`; return it, and the position behind it."""
    negated = text.startswith("[^", begin)
    at, shape = begin + 1 + negated, ""
    sides: list[list[str]] = [[]]
    while found := (_INSIDE if shape else _FIRST_INSIDE).match(text, at):
        at = found.end()
        match found.lastgroup:
            case "end":
                if not _SIDES.fullmatch(shape):
                    raise Refused("has brackets with an empty or a mixed side of &&")
                return _combined(sides, negated), at
            case "both":
                shape += "&"
                sides.append([])
            case "bracket":
                shape += "b"
                inner, at = bracket(text, found.start(), ignore_case)
                sides[-1].append(inner)
            case _:
                shape += "c"
                sides[-1].extend(characters(found, ignore_case))
    if at < len(text):
        raise Refused(f"uses {text[at : at + 3]} in brackets, which is not Java's or not translated")
    raise Refused("has a '[' that is never closed")


def _combined(sides: list[list[str]], negated: bool) -> str:
    """Match a character that one expression of every side matches; if negated, any other character."""
    unions = []
    for parts in sides:
        plain = "".join(part[1:-1] for part in parts if part[0] == "[")
        unions.append("|".join([f"[{plain}]"] * bool(plain) + [part for part in parts if part[0] != "["]))
    if not negated and unions == [f"[{plain}]"]:
        return unions[0]
    every = "".join(f"(?={union})" for union in unions)
    return complement(every) if negated else f"(?:{every}{ANY})"


def complement(text: str) -> str:
    """Match any character at which `text` does not match."""
    return f"(?:(?!{text}){ANY})"


def characters(found: re.Match[str], ignore_case: bool) -> list[str]:
    """Translate a token: return one expression for each character, range or class."""
    match found.lastgroup:
        case "class":
            return [_class(found[0], ignore_case)]
        case "quoted":
            spans = list(zip(found["text"], found["text"], strict=True))
        case "range":
            spans = [(found["first"], found["last"])]
        case _:
            spans = [(found[0], found[0])]
    return [_span(_code(first), _code(last), ignore_case) for first, last in spans]


def _class(text: str, ignore_case: bool) -> str:
    r"""Translate \d, \D, \PL, \p{Alpha} ...: predefined, POSIX, a category (`Lu`, `IsLu`), a script (`IsGreek`)."""
    name = text[2:].strip("{}") or text.lower()
    if ignore_case and text[1] in "pP":
        raise Refused(f"uses {text} while ignoring case")
    chars = _CLASSES.get(name)
    if category := _CATEGORY.fullmatch(name):
        chars = rf"\p{{{category[1]}}}"
    elif name.startswith("Is") and _is_script(name[2:]):
        chars = rf"\p{{Script={name[2:]}}}"
    if chars is None:
        raise Refused(f"uses {text}, which is not Java's or not translated")
    return complement(f"[{chars}]") if text[1].isupper() else f"[{chars}]"


def _is_script(name: str) -> bool:
    try:
        return bool(regex.compile(rf"\p{{Script={name}}}"))
    except regex.error:
        return False


def _code(text: str) -> int:
    """Return the code point of a character, or of an escape for one."""
    if len(text) == 1:
        return ord(text)
    kind, digits = text[1], text[2:].strip("{}")
    if kind == "c":
        return ord(digits) ^ 0x40
    if not digits:
        return ord(_CONTROLS.get(kind, kind))
    code = int(digits, 8 if kind == "0" else 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise Refused(f"has the escape {text}, which is no character")
    return code


def _span(first: int, last: int, ignore_case: bool) -> str:
    """Translate the characters first..last; without UNICODE_CASE, only ASCII letters ignore case."""
    if first > last:
        raise Refused(f"has the impossible range {chr(first)}-{chr(last)}")
    spans = [(first, last)]
    for low, high, other in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)) if ignore_case else ():
        if max(first, low) <= min(last, high):
            spans.append((max(first, low) + other, min(last, high) + other))
    return f"[{''.join(f'{_literal(low)}-{_literal(high)}' for low, high in spans)}]"


def _literal(code: int) -> str:
    text = chr(code)
    return text if text.isalnum() or not text.isascii() else f"\\{text}"

r"""Characters, classes and brackets of Java's regular expressions, as expressions that match one character.

Letters, digits and the predefined classes are ASCII, as in Java without its Unicode flags.  No flag of `regex` is
relied on: both cases are spelled out.  Nor are its nested sets (V1): it takes `[[^0][^1]]` for `[^01]`.
"""

from __future__ import annotations

import re

# One character behind a backslash, several in quotation, a class; for re.VERBOSE.
ESCAPE = r"""\\(?: x[0-9a-fA-F]{2} | x\{[0-9a-fA-F]{1,6}\} | u[0-9a-fA-F]{4} | 0(?:[0-3][0-7]{2}|[0-7]{1,2})
    | c[A-Z] | [tnrfae] | [^a-zA-Z0-9] )"""
QUOTED = r"\\Q(?P<text>(?:(?!\\E).)+)(?:\\E)?"
CLASS = r"\\(?: [dDwWsShHvV] | [pP](?:\{[a-zA-Z_]+\}|[A-Z]) )"
ANY = r"[\x00-\U0010FFFF]"

_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CLASSES = {
    r"\d": "[0-9]",
    r"\w": "[A-Za-z0-9_]",
    r"\s": r"[ \t\n\x0B\f\r]",
    r"\h": r"[ \t\xA0\u1680\u180E\u2000-\u200A\u202F\u205F\u3000]",
    r"\v": r"[\n\x0B\f\r\x85\u2028\u2029]",
    "Lower": "[a-z]",
    "Upper": "[A-Z]",
    "ASCII": r"[\x00-\x7F]",
    "Alpha": "[A-Za-z]",
    "Digit": "[0-9]",
    "Alnum": "[A-Za-z0-9]",
    "Punct": r"[!-/:-@\[-`{-\~]",
    "Graph": r"[!-\~]",
    "Print": r"[ -\~]",
    "Blank": r"[ \t]",
    "Cntrl": r"[\x00-\x1F\x7F]",
    "XDigit": "[0-9A-Fa-f]",
    "Space": r"[ \t\n\x0B\f\r]",
}
# General categories both sides define alike.  Not C and Cn: what is unassigned depends on the release.
_CATEGORY = re.compile("(?:Is)?(L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfo])")


def _inside(literals: str) -> re.Pattern[str]:
    one = rf"{ESCAPE}|[^\\\[&{literals}]|&(?!&)"
    return re.compile(
        rf"""(?P<bracket>\[) | (?P<both>&&(?![&^])) | (?P<range>(?P<first>{one})-(?P<last>{ESCAPE}|[^\\\[\]]))
        | (?:(?P<class>{CLASS})|(?P<quoted>{QUOTED}))(?!-[^\]]) | (?P<one>{one})(?!-[^\[\]]) | (?P<end>\])""",
        re.VERBOSE | re.DOTALL,
    )


_INSIDE, _FIRST_INSIDE = _inside(r"\]"), _inside("")  # a ']' that comes first of all is a character
_SIDES = re.compile("[cb]+(?:&(?:c+|b+))*")  # characters, brackets, &&; what Java makes of others is odd


class Refused(Exception):
    """Why a pattern is not translated, and where in it."""

    def __init__(self, why: str, at: int) -> None:
        super().__init__(why)
        self.at = at


def unknown(construct: str, at: int) -> Refused:
    """Name a construct that is refused as it is."""
    return Refused(f"uses {construct}, which is not Java's or not translated", at)


def bracket(text: str, begin: int, ignore_case: bool) -> tuple[str, int]:
    """Read a bracket expression that begins at `begin`; also where it ends."""
    negated = text.startswith("[^", begin)
    at, shape = begin + 1 + negated, ""
    sides: list[list[str]] = [[]]
    while found := (_INSIDE if shape else _FIRST_INSIDE).match(text, at):
        at = found.end()
        match found.lastgroup:
            case "end":
                if not _SIDES.fullmatch(shape):
                    raise Refused("has brackets with an empty or a mixed side of &&", begin)
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
        raise unknown(f"{text[at : at + 3]} in brackets", at)
    raise Refused("has a '[' that is never closed", begin)


def _combined(sides: list[list[str]], negated: bool) -> str:
    """Match a character that one expression of every side matches; negated, any other."""
    unions = []
    for parts in sides:
        plain = "".join(part[1:-1] for part in parts if re.match(r"\[[^^]", part))
        others = [part for part in parts if not re.match(r"\[[^^]", part)]
        unions.append("|".join([f"[{plain}]", *others] if plain else others))
    if len(sides) == 1 and not others:
        return f"[{'^' if negated else ''}{plain}]"
    both = "".join(f"(?={union})" for union in unions)
    return f"(?:(?!{both}){ANY})" if negated else f"(?:{both}{ANY})"


def characters(found: re.Match[str], ignore_case: bool) -> list[str]:
    """Spell what a token stands for: one expression for each character, range or class."""
    at = found.start()
    match found.lastgroup:
        case "class":
            return [_class(found[0], at, ignore_case)]
        case "quoted":
            return [_span(ord(char), ord(char), ignore_case) for char in found["text"]]
        case "range":
            first, last = _code(found["first"], at), _code(found["last"], at)
            if first > last:
                raise Refused(f"has the impossible range {found[0]}", at)
            return [_span(first, last, ignore_case)]
    return [_span(_code(found[0], at), _code(found[0], at), ignore_case)]


def _class(text: str, at: int, ignore_case: bool) -> str:
    r"""Spell \d, \D, \PL, \p{Alpha} ...: predefined, POSIX, a category (`Lu`, `IsLu`), a script (`IsGreek`)."""
    name = text[2:].strip("{}") or text.lower()
    if ignore_case and text[1] in "pP":
        raise Refused(f"uses {text} while ignoring case", at)
    if name in _CLASSES:
        chars = _CLASSES[name]
    elif category := _CATEGORY.fullmatch(name):
        chars = rf"[\p{{{category[1]}}}]"
    elif name.startswith("Is"):
        chars = rf"[\p{{Script={name[2:]}}}]"
    else:
        raise unknown(text, at)
    return f"[^{chars[1:]}" if text[1].isupper() else chars


def _code(text: str, at: int) -> int:
    """Read a character, or an escape that stands for one."""
    if len(text) == 1:
        return ord(text)
    kind, digits = text[1], text[2:].strip("{}")
    if kind == "c":
        return ord(digits) ^ 0x40
    if not digits:
        return ord(_CONTROLS.get(kind, kind))
    code = int(digits, 8 if kind == "0" else 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise Refused(f"has the escape {text}, which is no character", at)
    return code


def _span(first: int, last: int, ignore_case: bool) -> str:
    """Spell the characters first..last; without UNICODE_CASE, ignoring case is for ASCII letters only."""
    spans = [(first, last)]
    for low, high, other in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)) if ignore_case else ():
        if max(first, low) <= min(last, high):
            spans.append((max(first, low) + other, min(last, high) + other))
    return f"[{''.join(f'{_literal(low)}-{_literal(high)}' for low, high in spans)}]"


def _literal(code: int) -> str:
    text = chr(code)
    return text if text.isalnum() or not text.isascii() else f"\\{text}"

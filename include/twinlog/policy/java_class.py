r"""Java's bracket expressions, escapes of one character, and quotation.

What Java does oddly is refused, not imitated: an intersection with an empty side, `^` or another `&` after `&&`, single
characters and brackets mixed on the right of `&&` (Java forgets some of them), ranges that start with \v.
"""

from __future__ import annotations

from twinlog.policy import java_charset as charset
from twinlog.policy.java_charset import CharSet
from twinlog.policy.java_source import Refused, Source

_CONTROLS = {"t": 0x09, "n": 0x0A, "r": 0x0D, "f": 0x0C, "a": 0x07, "e": 0x1B}
_UNCLOSED = "has a '[' that is never closed"


def unquote(pattern: str) -> str:
    r"""Replace \Q...\E by escaped characters, as Java does before it parses; no \E means up to the end."""
    source, parts = Source(pattern), []
    while source.more():
        if source.took("\\Q"):
            text, _, rest = source.text[source.position :].partition("\\E")
            parts.append(
                "".join(char if char.isalnum() or not char.isascii() else f"\\{char}" for char in text)
            )
            source = Source(rest)
        elif source.peek() == "\\":
            parts.append(source.take() + (source.take() if source.more() else ""))
        else:
            parts.append(source.take())
    return "".join(parts)


def parse_class(source: Source, ignore_case: bool) -> CharSet:
    """Read a bracket expression after its '[', up to and with its ']'."""
    negated = source.took("^")
    chars = _operand(source, ignore_case, first=True)
    while source.took("&&"):
        chars = chars.intersection(_operand(source, ignore_case, first=False))
    if not source.took("]"):
        raise Refused(_UNCLOSED)
    return chars.complement() if negated else chars


def _operand(source: Source, ignore_case: bool, *, first: bool) -> CharSet:
    """One side of an intersection: characters and brackets up to '&&' or ']'."""
    chars, brackets, singles = CharSet(), 0, 0
    if not first and source.peek() == "^":
        raise Refused("has a '^' after '&&', which Java takes for a character")
    if not first and source.peek() == "&":
        raise Refused("has more than two '&' in a row in brackets, which Java pairs in its own way")
    # A ']' that comes first of all is a character: an empty class does not exist.
    while not _ends(source, empty=not brackets + singles, first=first):
        if source.took("["):
            brackets += 1
            chars = chars.union(parse_class(source, ignore_case))
        else:
            singles += 1
            chars = chars.union(_item(source, ignore_case))
    if not brackets + singles:
        raise Refused("has an intersection '&&' with an empty side")
    if not first and brackets and singles:
        raise Refused("mixes characters and brackets on the right of '&&'; put them into one bracket")
    return chars


def _ends(source: Source, *, empty: bool, first: bool) -> bool:
    char = source.peek_or_refuse(_UNCLOSED)
    if char == "&" and source.peek(1) == "&":
        return True
    return char == "]" and not (empty and first)


def _item(source: Source, ignore_case: bool) -> CharSet:
    r"""Read a character, a range, or a class such as \d."""
    if source.peek() == "\\":
        letter = source.peek(1)
        if letter and letter in "pP":
            source.take()
            return parse_property(source, ignore_case)
        if letter and letter.lower() in charset.PREDEFINED:
            source.take()
            chars = charset.predefined(source.take())
            if source.peek() == "-" and source.peek(1) != "]":
                raise Refused(f"has a '-' after \\{letter} in brackets; put it last")
            return chars
    first = _one(source)
    if source.peek() != "-" or source.peek(1) in {"]", "["}:
        return charset.single(first, ignore_case)
    source.take()
    source.peek_or_refuse(_UNCLOSED)
    last = _one(source)
    if last < first:
        raise Refused(f"has the impossible range {chr(first)}-{chr(last)}")
    return charset.span(first, last, ignore_case)


def _one(source: Source) -> int:
    if source.took("\\"):
        return escaped_char(source)
    if source.peek() == "[":
        raise Refused("has a '[' as the end of a range; a literal one is written \\[")
    return ord(source.take())


def escaped_char(source: Source) -> int:
    """Read what follows a backslash and stands for one character; its code point."""
    if found := source.match(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})"):
        return _code_point(int(found[1] or found[2] or found[3], 16))
    if found := source.match(r"0([0-3][0-7]{2}|[0-7]{1,2})"):
        return int(found[1], 8)
    if found := source.match(r"c([\x00-\x7f])"):
        return ord(found[1]) ^ 0x40
    char = source.take_or_refuse("ends in a backslash")
    if char in _CONTROLS:
        return _CONTROLS[char]
    if char.isascii() and char.isalnum():
        raise Refused(f"has the escape \\{char}, which Java does not know here")
    return ord(char)


def parse_property(source: Source, ignore_case: bool) -> CharSet:
    r"""Read `p{Name}`, `P{Name}` or `pL` after the backslash."""
    found = source.match(r"([pP])(?:\{(\w+)\}|(\w))")
    if found is None:
        raise Refused("has a \\p without a name")
    name = found[2] or found[3]
    chars = charset.named(name)
    if chars is None:
        raise Refused(f"uses \\p{{{name}}}, which is not translated")
    if ignore_case:
        raise Refused(f"uses \\p{{{name}}} while ignoring case")
    return chars.complement() if found[1] == "P" else chars


def _code_point(code: int) -> int:
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise Refused(f"has the escape for {code:#x}, which is no character")
    return code

r"""Translate Java's regular expressions (java.util.regex.Pattern, no flags) for the `regex` module.

Kept as they are: groups, look-around, alternatives, quantifiers.  Rewritten, because Java gives them another meaning:
letters, classes, dots, brackets (java_class), `$`, `\b`, the inline flags i and s.  All else, also back references, is
refused with ConfigError, which names the construct and its position.

`\b` counts ASCII letters, digits and `_` (as Java 19 and later; earlier releases also count other letters).
"""

from __future__ import annotations

import functools
import re

import regex

from twinlog.errors import ConfigError
from twinlog.policy import java_class
from twinlog.policy.java_class import Refused

_TOKEN = re.compile(
    rf"""(?P<open>\((?:(?!\?)|\?(?:(?P<look>[=!>]|<[=!])|<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>
        |(?P<on>[is]*)(?:-(?P<off>[is]*))?(?P<end>[:)])))) | (?P<close>\)) | (?P<or>\|)
    | (?P<repeat>(?:[*+?]|\{{(?P<least>[0-9]{{1,9}})(?:,(?P<most>[0-9]{{0,9}}))?\}})[?+]?)
    | (?P<anchor>[\^$]|\\[AzZB]|\\b(?!\{{)) | (?P<dot>\.) | (?P<bracket>\[)
    | (?P<class>{java_class.CLASS}) | (?P<quoted>{java_class.QUOTED}) | (?P<one>{java_class.ESCAPE}|[^\\(*+?{{])""",
    re.VERBOSE | re.DOTALL,
)
_CONSTRUCT = re.compile(r"\\[pPbN]\{[^}]*\}?|\\.|\(\?<?[^)]?|.", re.DOTALL)
_WORD = "[A-Za-z0-9_]"
_LAST_LINE_END = r"(?:(?=(?:\r\n|[\r\u0085\u2028\u2029])?\Z)|(?<!\r)(?=\n\Z))"
_ANCHORS = {
    "^": r"\A",
    "$": _LAST_LINE_END,
    r"\A": r"\A",
    r"\z": r"\Z",
    r"\Z": _LAST_LINE_END,
    r"\b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    r"\B": f"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))",
}


@functools.lru_cache(maxsize=1024)
def compile_java(pattern: str) -> regex.Pattern[str]:
    """Compile a Java regex; `.match(name)` on the result is Java's `matcher(name).matches()`.

    Raises ConfigError with the pattern and the reason.
    """
    translation = _Translation(pattern)
    try:
        return regex.compile(rf"\A(?:{translation.whole()})\Z")
    except Refused as refused:
        why = f"{refused} (at character {translation.at + 1})"
    except (regex.error, RecursionError) as failed:
        why = f"is not understood: {failed}"
    hint = "write it without that, or a backslash before a literal character; patterns are java.util.regex's"
    raise ConfigError(f"the regular expression {pattern!r} {why}", hint=hint, pattern=pattern)


MOST_SECONDS = 0.5
"""CPU seconds that one match may take: a pattern with many `.*` may take hours over a text made for it."""


def matches(pattern: regex.Pattern[str], text: str) -> bool | None:
    """Say whether a compiled Java regex matches a text as a whole; None if it takes too long to say."""
    try:
        return pattern.match(text, timeout=MOST_SECONDS) is not None
    except TimeoutError:
        return None


class _Translation:
    """Translate a pattern in one pass over its tokens; `at` is where the current token begins."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = self.next = 0
        self.flags: frozenset[str] = frozenset()
        self.open: list[tuple[str, frozenset[str], int]] = []  # its opening, the flags around, its position
        self.names: set[str] = set()
        self.repeatable = False

    def whole(self) -> str:
        """Translate the whole pattern, or raise Refused."""
        parts = []
        while found := _TOKEN.match(self.text, self.at):
            self.next = found.end()
            parts.append(self._written(found))
            self.at = self.next
        if construct := _CONSTRUCT.match(self.text, self.at):
            raise Refused(f"uses {construct[0]}, which is not Java's or not translated")
        if self.open:
            self.at = self.open[-1][2]
            raise Refused("has a '(' that is never closed")
        return "".join(parts)

    def _written(self, found: re.Match[str]) -> str:
        kind, repeatable, ignore_case = found.lastgroup, self.repeatable, "i" in self.flags
        self.repeatable = kind in {"dot", "bracket", "class", "quoted", "one"}
        match kind:
            case "open":
                text = self._open_group(found)
            case "close":
                text = self._close_group()
            case "repeat":
                text = self._repeat(found, repeatable)
            case "anchor" | "or":
                text = _ANCHORS.get(found[0], found[0])
            case "dot":
                text = java_class.ANY if "s" in self.flags else r"[^\n\r\x85\u2028\u2029]"
            case "bracket":
                text, self.next = java_class.bracket(self.text, self.at, ignore_case)
            case _:
                text = "".join(java_class.characters(found, ignore_case))
        return text

    def _open_group(self, found: re.Match[str]) -> str:
        """Begin a group; flags apply up to the end of the group that sets them, or of their own `(?i:...)`."""
        around = self.flags
        self.flags = around.union(found["on"] or "").difference(found["off"] or "")
        if found["end"] == ")":
            return ""
        if found["name"] in self.names:
            raise Refused(f"names two groups {found['name']!r}")
        if found["look"] == ">" and self._looks_behind():
            raise Refused("looks behind with (?>")
        self.names.update([found["name"]] if found["name"] else [])
        opening = found[0] if found["look"] else "(?:"
        self.open.append((opening, around, self.at))
        return opening

    def _close_group(self) -> str:
        if not self.open:
            raise Refused("has a ')' that closes nothing")
        opening, self.flags, _ = self.open.pop()
        self.repeatable = opening in {"(?:", "(?>"}
        return ")"

    def _repeat(self, found: re.Match[str], repeatable: bool) -> str:
        text = found[0]
        if not repeatable:
            raise Refused(f"has {text} behind nothing that it could repeat")
        if found["most"] and int(found["most"]) < int(found["least"]):
            raise Refused(f"has the impossible repetition {text}")
        if self._looks_behind() and (self.text[self.at - 1] == ")" or re.search(r"[*+]|,\}", text)):
            raise Refused(f"looks behind with {text}")
        return text

    def _looks_behind(self) -> bool:
        """Say whether this is in a look-behind: Java matches it forwards, `regex` backwards, so both must agree."""
        return any(opening.startswith("(?<") for opening, _, _ in self.open)

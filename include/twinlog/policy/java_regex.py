r"""Java's regular expressions (java.util.regex.Pattern, no flags), written for the `regex` module.

Kept: groups, look-around, alternatives, quantifiers.  Written out, because Java means something else: letters,
classes, dots, brackets (java_class), `$`, `\b`, the inline flags i and s.  Everything else is refused with
ConfigError, which names the construct and where it stands; so are back references.

`\b` counts ASCII letters, digits and `_` (as Java 19 and later; earlier ones also count other letters).
"""

from __future__ import annotations

import functools
import re

import regex

from twinlog.errors import ConfigError
from twinlog.policy.java_class import ANY, CLASS, ESCAPE, QUOTED, Refused, bracket, characters, unknown

_TOKEN = re.compile(
    rf"""(?P<flags>\(\?(?P<on>[is]*)(?:-(?P<off>[is]*))?(?P<end>[:)]))
    | (?P<open>\((?:\?(?:[=!>]|<[=!]|<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>)|(?!\?))) | (?P<close>\)) | (?P<or>\|)
    | (?P<repeat>(?:[*+?]|\{{(?P<least>[0-9]{{1,9}})(?:,(?P<most>[0-9]{{0,9}}))?\}})[?+]?)
    | (?P<anchor>[\^$]|\\[AzZB]|\\b(?!\{{)) | (?P<dot>\.) | (?P<class>{CLASS}) | (?P<quoted>{QUOTED})
    | (?P<bracket>\[) | (?P<one>{ESCAPE}|[^\\\[(){{|*+?^$.])""",
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

    Raises ConfigError with the pattern and what is wrong with it.
    """
    try:
        return regex.compile(rf"\A(?:{_Translation(pattern).whole()})\Z")
    except Refused as refused:
        why = f"{refused} (at character {refused.at + 1})"
    except (regex.error, RecursionError) as failed:
        why = f"is not understood: {failed}"
    hint = "write it without that, or a backslash before a literal character; patterns are java.util.regex's"
    raise ConfigError(f"the regular expression {pattern!r} {why}", hint=hint, pattern=pattern)


class _Translation:
    """One pass over the tokens of a pattern."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.flags: frozenset[str] = frozenset()
        self.open: list[tuple[str, frozenset[str], int]] = []  # how it begins, the flags around it, where
        self.names: set[str] = set()
        self.repeatable = False

    def whole(self) -> str:
        """Translate all of the pattern, or raise Refused."""
        parts = []
        while found := _TOKEN.match(self.text, self.at):
            self.at = found.end()
            parts.append(self._written(found))
        if self.at < len(self.text):
            construct = _CONSTRUCT.match(self.text, self.at)
            raise unknown(construct[0] if construct else "", self.at)
        if self.open:
            raise Refused("has a '(' that is never closed", self.open[-1][2])
        return "".join(parts)

    def _written(self, found: re.Match[str]) -> str:
        kind, repeatable = found.lastgroup, self.repeatable
        self.repeatable = kind in {"dot", "bracket", "class", "quoted", "one"}
        match kind:
            case "flags":
                text = self._set_flags(found)
            case "open":
                text = self._open_group(found)
            case "close":
                text = self._close_group(found)
            case "repeat":
                text = self._repeat(found, repeatable)
            case "anchor" | "or":
                text = _ANCHORS.get(found[0], found[0])
            case "dot":
                text = ANY if "s" in self.flags else r"[^\n\r\x85\u2028\u2029]"
            case "bracket":
                text, self.at = bracket(self.text, found.start(), "i" in self.flags)
            case _:
                text = "".join(characters(found, "i" in self.flags))
        return text

    def _set_flags(self, found: re.Match[str]) -> str:
        r"""`(?i)`, `(?i-s)` hold to the end of the enclosing group, also in later alternatives; `(?i:...)` inside."""
        around = self.flags
        self.flags = around.union(found["on"]).difference(found["off"] or "")
        if found["end"] == ")":
            return ""
        self.open.append(("(?:", around, found.start()))
        return "(?:"

    def _open_group(self, found: re.Match[str]) -> str:
        name = found["name"]
        if name in self.names:
            raise Refused(f"names two groups {name!r}", found.start())
        if found[0] == "(?>" and self._looks_behind():
            raise Refused("looks behind with (?>", found.start())
        self.names.update([name] if name else [])
        opening = "(?:" if name or found[0] == "(" else found[0]
        self.open.append((opening, self.flags, found.start()))
        return opening

    def _close_group(self, found: re.Match[str]) -> str:
        if not self.open:
            raise Refused("has a ')' that closes nothing", found.start())
        opening, self.flags, _ = self.open.pop()
        self.repeatable = opening in {"(?:", "(?>"}
        return ")"

    def _repeat(self, found: re.Match[str], repeatable: bool) -> str:
        text, at = found[0], found.start()
        if not repeatable:
            raise Refused(f"has {text} behind nothing that it could repeat", at)
        if found["most"] and int(found["most"]) < int(found["least"]):
            raise Refused(f"has the impossible repetition {text}", at)
        if self._looks_behind() and (
            self.text[at - 1] == ")" or any(sign in text for sign in ("*", "+", ",}"))
        ):
            raise Refused(f"looks behind with {text}", at)
        return text

    def _looks_behind(self) -> bool:
        """Java looks behind over a bounded length, forwards; `regex` backwards: only what is the same both ways."""
        return any(opening.startswith("(?<") for opening, _, _ in self.open)

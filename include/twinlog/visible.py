"""Show text of others to people on one line: characters that a terminal, log or page would act on are escaped."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, line ends, lone surrogates, and characters that are invisible or change the text's direction."""


def visible(text: str) -> str:
    r"""Return `text` with each such character escaped, as `\x1b` or `\u202e`.  Pure."""
    return _ACTING.sub(_shown, text)


def visible_lines(text: str) -> str:
    """Escape as `visible` does, but keep line ends: for twinlog's own texts of several lines.  Pure."""
    return "\n".join(map(visible, text.split("\n")))


class VisibleFormatter(logging.Formatter):
    """Write a log line as `visible` does, whatever a name in it holds; a traceback keeps its line ends."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        """Return the line."""
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  logging's name
        """Return the lines of a traceback."""
        return visible_lines(super().formatException(ei))


def for_chats(text: str) -> str:
    """Return a text in which Slack, Teams, Mattermost and Discord call nobody and hide no link.  Pure.

    Line ends stay.  Names with `<`, `@` or `](` are still read as what they are.
    """
    return visible_lines(text).replace("](", "] (").translate(_CALLS)


_CALLS = {ord("<"): "\u2039", ord("@"): "\uff20"}


def visible_json(document: str) -> str:
    """Escape such characters in a JSON document without changing its meaning.  Pure.

    JSON itself escapes characters below U+0020 inside strings; outside strings it has only line ends and blanks there.
    """
    return _BEYOND_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


_BEYOND_JSON = re.compile(_ACTING.pattern.replace("\x00-\x1f", ""))


def first_few(lines: Sequence[str], most: int, form: str = "and {} more") -> list[str]:
    """Return the first lines, and behind them how many more there are.  Pure."""
    return [*lines[:most], *filter(None, [and_more(len(lines), most, form)])]


def listed(texts: Sequence[str], most: int = 5) -> str:
    """List the first `most` texts, and say how many more there are.  Pure."""
    return ", ".join(texts[:most]) + and_more(len(texts), most, " and {:,} more")


def and_more(count: int, told: int = 1, form: str = " (and {} more)") -> str:
    """Say how many of `count` things are left beside those that were told; "" if none is.  Pure."""
    return singular(form.format(count - told)) if count > told else ""


def singular(text: str) -> str:
    """Return the text with what is counted in the singular behind a 1: `1 record is`, not `1 records are`.  Pure."""
    return _ONE.sub(lambda found: f"{found[1]}{_BE.get(found[2], '')}", text)


_BE = {" are": " is", " were": " was", " have": " has", " wait": " waits"}
_ONE = re.compile(
    r"(?<![\w.,:-])(1 (?:first |consumer )?(?:record|group|position|partition|topic|clone|change|cycle|denial|subject|"
    r"broker|file|member|version|byte|cluster|check|lane|flow|place|difference))s\b( are| were| have| wait)?"
)


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

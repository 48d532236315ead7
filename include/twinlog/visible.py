"""Text of others as one line for people: what a terminal, a log or a page would act on is shown, not obeyed."""

from __future__ import annotations

import re
from typing import Final

_ACTING: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, line ends, lone surrogates, and what turns the direction of text or takes no room."""


def visible(text: str) -> str:
    r"""Return a text with each such character as `\x1b` or `\u202e`.  Pure."""
    return _ACTING.sub(_shown, text)


def visible_lines(text: str) -> str:
    """Do the same, but let line ends be: for texts of ours of several lines.  Pure."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(document: str) -> str:
    """Do the same with a JSON document, which means the same afterwards.  Pure.

    JSON itself escapes what is below U+0020 in strings; between them it has line ends and blanks only.
    """
    return _BEYOND_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


_BEYOND_JSON: Final = re.compile(_ACTING.pattern.replace("\x00-\x1f", ""))


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

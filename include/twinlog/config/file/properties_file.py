"""Read a Java properties file as entries that know their line.

javaproperties handles the syntax (escapes, continuation lines, separators, Latin-1).  This module adds line numbers,
and says clearly if a file is not a properties file.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import javaproperties

from twinlog.config.file.origin import AS_WRITTEN, Findings, Origin, Properties, Property
from twinlog.errors import ConfigError

LINE_END = re.compile(r"\r\n|\r|\n")
LOST_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\(?![\\tnfru\s=:#!\"'])")
"""A backslash that Java drops because the next character needs no escape (`A\\.orders` -> `A.orders`)."""

COMMENT = re.compile(r"^[#!]\s|\s[#!]")
"""Text that looks like a comment after a value; a value that begins with the mark, such as `#secret`, does not."""
CONTINUED_COMMENT = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*[#!]")
"""A line meant as a comment, but the backslash before it makes it a part of the value."""
ESCAPED_MARK = re.compile(r"\\[#!]")


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """The entries of one file.  `sha256` is computed over the bytes on disk."""

    path: Path
    sha256: str
    properties: Properties


def read(path: Path, findings: Findings) -> PropertiesFile:
    """Read a properties file; duplicate keys (the last one wins) and lost backslashes become warnings.

    Raises ConfigError if the file is missing, unreadable, or not a properties file.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        what = "does not exist" if isinstance(error, FileNotFoundError) else "is a folder"
        hint = "give the path of an mm2.properties file"
        raise ConfigError(f"{path} {what}", hint=hint, file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", file=str(path)) from error
    _refuse_other_formats(path, content)
    return PropertiesFile(path, hashlib.sha256(content).hexdigest(), parse(content, path.name, findings))


def parse(content: bytes, file: str, findings: Findings) -> Properties:
    """Parse the bytes of a properties file.  Raises ConfigError for a broken Unicode escape."""
    found: dict[str, Property] = {}
    line = 1
    try:
        for element in javaproperties.parse(content):
            if isinstance(element, javaproperties.KeyValue):
                origin = Origin(AS_WRITTEN, file, line, element.key)
                _warn_about(element, origin, found, findings)
                found[element.key] = Property(element.value, origin)
            line += len(LINE_END.findall(element.source))
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(
            f"{file}:{line}: {error} is no character",
            hint="write a backslash twice to mean one",
            file=file,
            line=line,
        ) from error
    return found


def _warn_about(
    element: javaproperties.KeyValue, origin: Origin, found: dict[str, Property], findings: Findings
) -> None:
    earlier = found.get(element.key)
    if earlier is not None:
        findings.warn(
            origin, f"is set again, this line wins over line {earlier.origin.line}", "keep one of the two"
        )
    if element.value != element.value.rstrip():
        findings.warn(
            origin,
            "the value ends in blanks, which are ignored",
            "remove them: Java keeps them, and MM2 reads `enabled=true ` as false",
        )
    if not (element.key + element.value).isascii() and not element.source.isascii():
        findings.warn(
            origin, "characters beyond ASCII are read as Latin-1, as Java does", "write them as \\uXXXX"
        )
    if _holds_a_comment(element):
        findings.warn(
            origin,
            "holds what reads like a comment: a properties file has none behind a value, all of it is the value",
            "give the comment a line of its own; a mark that belongs to the value is written \\# or \\!",
        )
    if LOST_BACKSLASH.search(element.source_stripped):
        findings.warn(
            origin,
            "a single backslash disappears when a properties file is read",
            "write it twice (`A\\\\.orders`)",
        )


def _holds_a_comment(element: javaproperties.KeyValue) -> bool:
    """Say whether `#` or `!` in a value looks like the start of a comment; one escaped mark shows that it is meant."""
    if ESCAPED_MARK.search(element.source):
        return False
    return bool(COMMENT.search(element.value) or CONTINUED_COMMENT.search(element.source))


def _refuse_other_formats(path: Path, content: bytes) -> None:
    """Raise ConfigError for content that is no properties file, or that Java would read otherwise than meant."""
    start = content.lstrip()[:1]
    if b"\0" in content or content.startswith((b"\xfe\xff", b"\xff\xfe")):
        what, hint = "is no properties file: it holds binary or UTF-16 text", "save it as plain text"
    elif content.startswith(b"\xef\xbb\xbf"):
        what = "starts with a byte order mark, which Java takes for a part of the first key"
        hint = "save it as UTF-8 without BOM"
    elif start in {b"{", b"["}:
        what = "is JSON, not a properties file"
        hint = "write a connector's keys as A->B.KEY = VALUE"
    elif start == b"<":
        what, hint = "is XML or HTML, not a properties file", ""
    else:
        return
    raise ConfigError(f"{path} {what}", hint=hint, file=str(path))

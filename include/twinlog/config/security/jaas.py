"""Parse `sasl.jaas.config`: one login module with its options, in Java's own small language.

`Module flag key=value key="value" ... ;` with // and /* */ comments, as Kafka's JaasConfig reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from twinlog.errors import ConfigError

KEY = "sasl.jaas.config"
FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(
    r"""
    (?P<skip>\s+ | //[^\n]*(?:\n|$) | /\*.*?\*/)
  | (?P<double>"(?:[^"\\\n]|\\.)*")
  | (?P<single>'(?:[^'\\\n]|\\.)*')
  | (?P<equals>=)
  | (?P<end>;)
  | (?P<word>[^\s="';]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The module's class name and its options.  Options may hold a password: they are kept out of `repr`."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


def parse_jaas(text: str) -> LoginModule:
    """Parse the value of `sasl.jaas.config`.

    Raises ConfigError, which never quotes the text, if it is not exactly one terminated entry.
    """
    tokens = list(_tokens(text))
    ends = [index for index, token in enumerate(tokens) if token.kind == "end"]
    if not tokens:
        raise _wrong("is empty")
    if not ends or ends[-1] != len(tokens) - 1:
        raise _wrong("does not end in a semicolon")
    if len(ends) > 1:
        raise _wrong(f"holds {len(ends)} login modules, a client has one")
    return _entry(tokens[:-1])


def _entry(tokens: list[_Token]) -> LoginModule:
    match tokens:
        case [_Token("text", name), _Token("text", flag), *options] if flag.lower() in FLAGS:
            return LoginModule(name, dict(_options(options)))
        case _:
            raise _wrong("does not start with a login module and a flag (required, requisite, ...)")


def _options(tokens: list[_Token]) -> Iterator[tuple[str, str]]:
    for at in range(0, len(tokens), 3):
        match tokens[at : at + 3]:
            case [_Token("text", name), _Token("equals"), _Token("text", value)]:
                yield name, value
            case _:
                # A stray word may be the second half of a password: count, do not quote.
                raise _wrong(f"its option {at // 3 + 1} is not name=value")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong("has a quote that is not closed")
        at = match.end()
        match match.lastgroup:
            case "double" | "single":
                yield _Token("text", _ESCAPE.sub(_unescaped, match[0][1:-1]))
            case "word":
                yield _Token("text", match[0])
            case "equals" | "end" as kind:
                yield _Token(kind, match[0])
            case _:
                pass


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code.isdigit() and code[0] < "8" else _LETTERS.get(code, code)


def _wrong(what: str) -> ConfigError:
    return ConfigError(
        f"{KEY}: {what}",
        hint='write: <login module class> required username="..." password="...";',
        key=KEY,
    )

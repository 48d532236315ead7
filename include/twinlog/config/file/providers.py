"""Read values from outside the file (`${provider:path:key}`) as Kafka's config providers do, and never print a secret.

`env`, `file` and `dir` (and `airflow`, inside Airflow) work without being declared; a `config.providers` declaration
may give Kafka's three classes other names and parameters, or name a Python function.  One difference from Kafka, on
purpose: a reference that cannot be resolved is an error, while Kafka goes on with the text `${...}` as the password.
Sources: ConfigTransformer, EnvVarConfigProvider, FileConfigProvider, DirectoryConfigProvider.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import javaproperties

from twinlog.config.file.origin import Origin, Properties, Property
from twinlog.errors import ConfigError, TransientError, TwinlogError

REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""Kafka's own pattern: provider, optional path, key (ConfigTransformer.DEFAULT_PATTERN)."""


class Unknown(str):
    """The placeholder of a value that is known only elsewhere: text that holds it cannot be judged here."""

    __slots__ = ()


AirflowResolver = Callable[[str, str], str]
"""Returns the value for a connection id and a field (`password` if none is written)."""

Lookup = Callable[[str, str], str]
"""Returns the value for a path ("" if none is written) and a key; raises LookupFailedError."""


def stand_in(_path: str, _key: str) -> str:
    """Stand for a value in a Dag file, which only needs names: nothing outside of it is asked at parse time."""
    return Unknown("known-in-tasks-only")


_KAFKA = "org.apache.kafka.common.config.provider."
_PYTHON = "python:"


class LookupFailedError(Exception):
    """A reference that cannot be resolved; the text says why, and holds no value."""


class NotHereError(LookupFailedError):
    """A reference to a thing that is not on this machine but may be on the one that the file is for."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """A value after expansion.

    `indirect` is true if any part of it came from a provider; `known` is false if any part is Unknown.
    """

    text: str
    indirect: bool
    known: bool = True


@dataclass(frozen=True, slots=True)
class Providers:
    """The providers of one file by name."""

    by_name: Mapping[str, Lookup]

    def expand(self, value: Property) -> Expanded:
        """Replace every reference in a value and trim it, as ConfigDef does for every type.

        Raises ConfigError with file, line and key if a reference cannot be resolved.
        """
        if "${" not in value.text:
            return Expanded(value.text.strip(), indirect=False)
        pieces: list[str] = []
        at, known = 0, True
        for match in REFERENCE.finditer(value.text):
            found = self._look_up(match, value.origin)
            pieces += (value.text[at : match.start()], found)
            at, known = match.end(), known and not isinstance(found, Unknown)
        return Expanded("".join([*pieces, value.text[at:]]).strip(), indirect=at > 0, known=known)

    def _look_up(self, match: re.Match[str], origin: Origin) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        where = f"{origin.place}: {origin.key}: {match[0]}"
        lookup = self.by_name.get(name)
        if lookup is None:
            raise ConfigError(
                f"{where} names no known provider",
                hint="use env, file, dir or airflow, or declare it in config.providers",
                key=origin.key,
                line=origin.line,
            )
        try:
            return lookup(path, key)
        except LookupFailedError as failure:
            raise ConfigError(
                f"{where}: {failure}",
                key=origin.key,
                line=origin.line,
                elsewhere=isinstance(failure, NotHereError),
            ) from failure


def providers_of(
    raw: Properties, environ: Mapping[str, str], airflow: AirflowResolver | None = None
) -> tuple[Providers, tuple[ConfigError, ...]]:
    """Return the built-in and the declared providers, and the mistakes in the declarations."""
    by_name: dict[str, Lookup] = {
        "env": partial(_environment, environ, None),
        "file": partial(_file, ()),
        "dir": partial(_directory, ()),
        "airflow": partial(_airflow, airflow),
    }
    errors: list[ConfigError] = []
    declared = raw["config.providers"].text.split(",") if "config.providers" in raw else []
    for name in filter(None, map(str.strip, declared)):
        try:
            by_name[name] = _declared(name, raw, environ, asked=airflow is not stand_in)
        except ConfigError as error:
            errors.append(error)
    return Providers(by_name), tuple(errors)


def _declared(name: str, raw: Properties, environ: Mapping[str, str], *, asked: bool) -> Lookup:
    class_key = f"config.providers.{name}.class"
    given = raw.get(class_key)
    if given is None:
        raise ConfigError(f"{name} has no class", hint=f"set {class_key}", key="config.providers")
    prefix = f"config.providers.{name}.param."
    allowed = raw.get(prefix + "allowed.paths")
    folders = tuple(Path(part.strip()) for part in allowed.text.split(",")) if allowed else ()
    written = given.text.strip()
    if written.startswith(_PYTHON):
        of = {key.removeprefix(prefix): it.text for key, it in raw.items() if key.startswith(prefix)}
        called = _function(written.removeprefix(_PYTHON), of, class_key)
        return called if asked else stand_in
    match written.removeprefix(_KAFKA):
        case "EnvVarConfigProvider":
            return partial(_environment, environ, _pattern(raw.get(prefix + "allowlist.pattern")))
        case "FileConfigProvider":
            return partial(_file, folders)
        case "DirectoryConfigProvider":
            return partial(_directory, folders)
        case _:
            raise ConfigError(
                f"{written} cannot run here",
                hint="use Kafka's EnvVar-, File- or DirectoryConfigProvider, or python:package.module.function",
                key=class_key,
            )


def _function(name: str, parameters: Mapping[str, str], class_key: str) -> Lookup:
    """Return what a Python function gives for a path and a key, each asked for once; `parameters` go by keyword.

    Raises ConfigError if it cannot be imported.  What is looked up raises LookupFailedError if the function raises
    LookupError or gives no text, and TransientError if it raises anything else: a vault may be back soon.
    """
    module, _, function = name.rpartition(".")
    try:
        call = getattr(importlib.import_module(module), function)
    except Exception as error:  # noqa: BLE001  a user's module
        raise ConfigError(
            f"{_PYTHON}{name} cannot be imported: {type(error).__name__}: {error}",
            hint="write python:package.module.function, and install the package wherever this file is read",
            key=class_key,
        ) from None

    @cache
    def look_up(path: str, key: str) -> str:
        try:
            found = call(path, key, **parameters)
        except LookupError:
            raise LookupFailedError(f"{name} knows no such value") from None
        except TwinlogError:
            raise
        except Exception as error:  # its text may hold a secret
            raise TransientError(
                f"the config provider {name} failed: {type(error).__name__}",
                hint="--debug shows its traceback",
                code="config-provider",
            ) from error
        if not isinstance(found, str):
            raise LookupFailedError(f"{name} gave {type(found).__name__}, and no text")
        return found

    return look_up


def _pattern(value: Property | None) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        return re.compile(value.text.strip())
    except re.error as error:
        raise ConfigError(f"illegal pattern: {error}", key=value.origin.key) from error


def _environment(environ: Mapping[str, str], allowed: re.Pattern[str] | None, path: str, key: str) -> str:
    if path:
        raise LookupFailedError("an environment variable has no path; write ${env:NAME}")
    if allowed is not None and not allowed.fullmatch(key):
        raise LookupFailedError("allowlist.pattern does not allow this variable")
    if key not in environ:
        raise NotHereError(f"the environment variable {key} is not set")
    return environ[key]


def _file(folders: tuple[Path, ...], path: str, key: str) -> str:
    content = _content_of(_allowed(path, folders))
    try:
        found = javaproperties.loads(content.decode())  # UTF-8, unlike the main file: FileConfigProvider
    except ValueError as error:
        raise LookupFailedError(f"{path} is no properties file") from error
    if key not in found:
        raise NotHereError(f"{path} has no key {key}")
    return str(found[key])


def _directory(folders: tuple[Path, ...], path: str, key: str) -> str:
    if Path(key).name != key:
        raise LookupFailedError("the key is the name of a file in the folder")
    try:
        return _content_of(_allowed(path, folders) / key).decode()
    except UnicodeDecodeError as error:
        raise LookupFailedError(f"{path}/{key} is no UTF-8 text") from error


def _allowed(path: str, folders: tuple[Path, ...]) -> Path:
    if not path:
        raise LookupFailedError("a path is missing; write ${file:PATH:KEY} or ${dir:FOLDER:FILE}")
    wanted = Path(path)
    if folders and not any(wanted.resolve().is_relative_to(folder.resolve()) for folder in folders):
        raise LookupFailedError(f"{path} is outside allowed.paths")
    return wanted


def _content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotHereError(f"{path} cannot be read: {error.strerror}") from error


def _airflow(resolver: AirflowResolver | None, path: str, key: str) -> str:
    if resolver is None:
        raise NotHereError("connections of Airflow are known inside Airflow only; use ${env:..} here")
    return resolver(path, key) if path else resolver(key, "password")


MASK = "[hidden]"


@dataclass(frozen=True, slots=True)
class Secret:
    """Wraps a secret string: `str`, `repr` and formatting show a mask; `reveal()` gives the value."""

    _value: str

    def reveal(self) -> str:
        """Return the secret itself.  Call it only where a client is configured."""
        return self._value

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"Secret({MASK})"


def reveal(value: str | Secret) -> str:
    """Return the plain string behind a property value."""
    return value.reveal() if isinstance(value, Secret) else value


def quoted(value: str | Secret) -> str:
    """Return a property value for an error message: in quotes, or masked."""
    return MASK if isinstance(value, Secret) else repr(value)

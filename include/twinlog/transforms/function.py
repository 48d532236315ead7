"""Name a user's function of records, tell its version from another one's, and load it.

A version is the digest of the module's source, and the `__version__` that the module may declare.  It is read without
running the module, so that reading a configuration costs no import; only the workers that apply the function import it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from twinlog.policy.selection import NameFilter

PREFIX: Final = "python:"
_NAME: Final = re.compile(rf"{PREFIX}(?P<module>\w+(?:\.\w+)+|\w+)\.(?P<function>\w+)")


class NoFunctionError(ValueError):
    """Report a function that cannot be used; the text says why, `hint` what to do.

    `absent`: its module is not on this machine.
    """

    def __init__(self, message: str, hint: str = "", *, absent: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.absent = absent


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its dotted name, and the version that is meant; `topics` are Java regexes of source topics."""

    name: str
    digest: str
    version: str = ""
    topics: tuple[str, ...] = ()

    def concerns(self, topic: str) -> bool:
        """Say whether the function is for a topic of the source."""
        return NameFilter(self.topics).accepts(topic)

    @property
    def description(self) -> list[str]:
        """Return what tells the function from one that may do something else."""
        return [self.name, self.digest, self.version]


def read_function(text: str, topics: tuple[str, ...] = ()) -> Function:
    """Return the function that `python:package.module.function` names, as its module is on this machine now.

    Raises NoFunctionError.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise NoFunctionError(f"{text!r} is no dotted name", f"write {PREFIX}package.module.function")
    module, function = found["module"], found["function"]
    source = _source(module)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise NoFunctionError(f"{module} cannot be read: {error.msg}, line {error.lineno}") from None
    if not any(isinstance(it, ast.FunctionDef) and it.name == function for it in tree.body):
        hint = "define it there with def: its version is the digest of that module's source"
        raise NoFunctionError(f"{module} defines no function {function}", hint)
    return Function(f"{module}.{function}", _digest(source), _declared_version(tree), topics)


def load_function(function: Function) -> Callable[[Any], Any]:
    """Import the function, if its module is the one that was read.

    Raises NoFunctionError; any error of the module's own code becomes one, too.
    """
    module, _, name = function.name.rpartition(".")
    known = _loaded.get(module)
    if (known or _digest(_source(module))) != function.digest:
        raise NoFunctionError(
            f"{module} on this worker is not the one that the configuration was read with",
            "install one version everywhere, and start anew what has run since before",
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001  a user's code: any error of it becomes one line
        hint = "install what it needs wherever Spark's workers run"
        raise NoFunctionError(f"{module} cannot be imported: {type(error).__name__}: {error}", hint) from None
    _loaded[module] = function.digest
    if not callable(found):
        raise NoFunctionError(f"{function.name} is no function")
    loaded: Callable[[Any], Any] = found
    return loaded


_loaded: Final[dict[str, str]] = {}
"""The digest of each module's source when it was loaded here: a worker lives longer than a file stays the same."""


def _source(module: str) -> str:
    """Return the source of a module; only the packages around it are imported."""
    try:
        spec = importlib.util.find_spec(module)
        source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001  a user's package
        raise NoFunctionError(
            f"{module} cannot be found: {type(error).__name__}: {error}", absent=True
        ) from None
    if source is None:
        raise NoFunctionError(
            f"there is no Python source of {module}",
            "put its folder on PYTHONPATH, also where Spark's workers run",
            absent=True,
        )
    return str(source)


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _declared_version(tree: ast.Module) -> str:
    """Return the text that the module assigns to `__version__`, "" if there is none."""
    for it in tree.body:
        if (
            isinstance(it, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == "__version__" for target in it.targets)
            and isinstance(it.value, ast.Constant)
        ):
            return str(it.value.value)
    return ""

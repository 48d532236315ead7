"""Read an attribute once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class read_once(Generic[R]):  # noqa: N801  a decorator, like property
    """A `functools.cached_property` without a lock, for attributes that ask a cluster.

    Until Python 3.12 that one holds a lock for all instances of the class while it reads: one cluster that does not
    answer would hold up every other flow of the process.  Two threads that share an instance may both read.
    """

    def __init__(self, read: Callable[[Any], R]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> R:
        value = instance.__dict__[self._name] = self._read(instance)
        return value

"""Say which distributions Spark's tasks need, and what those need themselves.

Not Airflow, Great Expectations or pandas: no task of a lane imports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from twinlog.errors import ConfigError, UsageError

TASKS_NEED: Final = (
    "cramjam",
    "crc32c",
    "javaproperties",
    "kafka-python",
    "numpy",
    "platformdirs",
    "pyarrow",
    "pydantic",
    "regex",
    "requests",
    "tenacity",
)
"""The modules that a task of a copy, an audit or a sample reaches import these."""

_THERE_ALREADY: Final = frozenset({"twinlog", "pyspark", "pyspark-client", "py4j"})
"""Twinlog is packed by itself, and a node's Spark has a PySpark."""


def needed(also: Iterable[str]) -> Mapping[str, str]:
    """Return the versions of all distributions that tasks need, by name: those installed here.

    Raises UsageError if one of `also` is not installed here, ConfigError (`spark-archive`) if another one is not.
    """
    wished = {canonicalize_name(it) for it in also}
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(name, "") for name in (*map(canonicalize_name, TASKS_NEED), *wished)]
    while waiting:
        name, extra = waiting.pop()
        if name in _THERE_ALREADY or (name, extra) in seen:
            continue
        seen.add((name, extra))
        here = _installed(name, wished)
        found[name] = here.version
        for it in map(Requirement, here.requires or ()):
            if it.marker is None or it.marker.evaluate({"extra": extra}):
                waiting.extend((canonicalize_name(it.name), more) for more in ("", *it.extras))
    return dict(sorted(found.items()))


def _installed(name: str, wished: Iterable[str]) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        if name in wished:
            raise UsageError(
                f"--with: {name} is not installed here", hint="pip install it here first, or correct its name"
            ) from None
        raise ConfigError(
            f"{name}, which tasks need, is not installed here",
            hint=f"pip install {name}",
            code="spark-archive",
        ) from None

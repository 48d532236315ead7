"""Make an archive: the running twinlog, and the packages that its tasks need, as they are installed here.

Native code stays what it is, so an archive fits this Python and machines of this platform only.  (venv-pack would take
the whole environment, Airflow and all, and a link to its Python, which nodes need at the same place.)  Airflow, Great
Expectations and pandas are left out: no task of a lane imports them.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Final, NoReturn

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import twinlog
from twinlog.errors import ConfigError, UsageError
from twinlog.spark.archive.manifest import MANIFEST, Manifest, running_python, this_platform
from twinlog.spark.build import BUILD

_PACKAGE: Final = Path(twinlog.__file__).resolve().parent
_COMPILED: Final = "__pycache__"


@dataclass(frozen=True, slots=True)
class Made:
    """An archive that was written: where, how large, and what is in it."""

    archive: str
    bytes: int
    manifest: Manifest


def default_name() -> str:
    """Return the name of an archive, such as `twinlog-0.2.0-py3.11-linux-x86_64.tar.gz`."""
    return f"twinlog-{twinlog.__version__}-py{running_python()}-{this_platform()}.tar.gz"


def make(out: Path, also: Sequence[str] = ()) -> Made:
    """Write an archive for this Python with the distributions of `also`, whole or not at all.

    Raises UsageError for a name that is no .tar.gz, a file that exists, a folder that does not, or a distribution that
    is not installed; ConfigError (`spark-archive`) if files of a package cannot be had.
    """
    if not out.name.endswith(".tar.gz"):
        raise UsageError(f"--out: {out.name} is no .tar.gz", hint="Spark unpacks by the ending")
    if out.exists():
        raise UsageError(f"{out} exists", hint="delete it, or name another file with --out")
    if not out.parent.is_dir():
        raise UsageError(f"there is no folder {out.parent}", hint="make it, or name another file with --out")
    packages = needed(also)
    manifest = Manifest(BUILD, running_python(), this_platform(), packages)
    with _whole(out) as unfinished:
        _write(unfinished, manifest, chain(_twinlog(), *map(_installed, packages)))
    return Made(str(out.resolve()), out.stat().st_size, manifest)


@contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """Yield a path to write to; it gets its name when it is complete, and is deleted if it is not."""
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def _write(path: Path, manifest: Manifest, files: Iterable[tuple[str, Path]]) -> None:
    # Some installers leave links to a cache of theirs, which other machines have not.
    with tarfile.open(path, "w:gz", compresslevel=6, dereference=True) as tar:
        text = manifest.as_json().encode()
        first = tarfile.TarInfo(MANIFEST)
        first.size, first.mode = len(text), 0o644
        tar.addfile(first, io.BytesIO(text))
        for name, file in files:
            tar.add(file, name, recursive=False, filter=_nobodys)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who owns a file here, and let everybody read it: executors run as another user."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry


def _twinlog() -> Iterator[tuple[str, Path]]:
    """Yield all files of the running twinlog: workers compare its fingerprint with the driver's."""
    for file in sorted(_PACKAGE.rglob("*")):
        if file.is_file() and file.parent.name != _COMPILED:
            yield f"twinlog/{file.relative_to(_PACKAGE).as_posix()}", file


def _installed(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the files of an installed distribution, but not its commands, which lie outside of the module path."""
    for entry in metadata.distribution(name).files or _refuse(name, "does not tell which files it has"):
        if ".." in entry.parts or _COMPILED in entry.parts:
            continue
        file = Path(str(entry.locate()))
        if not file.is_file():
            _refuse(name, f"lacks its file {file}")
        if file.suffix == ".pth":
            _refuse(name, f"is installed as a link to its sources ({file})")
        yield entry.as_posix(), file


def _refuse(name: str, why: str) -> NoReturn:
    raise ConfigError(
        f"{name} {why}",
        hint=f"pip install --force-reinstall {name}, without -e",
        code="spark-archive",
    )


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
        here = _distribution(name, wished)
        found[name] = here.version
        for it in map(Requirement, here.requires or ()):
            if it.marker is None or it.marker.evaluate({"extra": extra}):
                waiting.extend((canonicalize_name(it.name), more) for more in ("", *it.extras))
    return dict(sorted(found.items()))


def _distribution(name: str, wished: Iterable[str]) -> metadata.Distribution:
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

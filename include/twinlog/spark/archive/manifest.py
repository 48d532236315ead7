"""Say for which Python and which twinlog an archive was made, and refuse one that is damaged or for others."""

from __future__ import annotations

import gzip
import json
import sys
import sysconfig
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from twinlog.errors import ConfigError
from twinlog.spark.build import BUILD

MANIFEST: Final = "twinlog-archive.json"
"""The first file of an archive; spark/daemon.py reads it on the worker."""

_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """Tell what an archive holds: a build of twinlog, and versions of packages for one Python on one platform."""

    build: str
    python: str
    platform: str
    packages: Mapping[str, str]

    def as_json(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self), indent=1) + "\n"


def running_python() -> str:
    """Return the Python of this process, such as `3.11`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def this_platform() -> str:
    """Return the platform of this machine, such as `linux-x86_64`."""
    return sysconfig.get_platform()


def read(archive: Path) -> Manifest:
    """Read the manifest of an archive, and all of the archive, whose checksum stands at its end.

    Raises ConfigError (`spark-archive`) for a file that is none, or is damaged.
    """
    try:
        with tarfile.open(archive, "r:gz") as tar:
            first = tar.next()
            content = tar.extractfile(first) if first is not None and first.name == MANIFEST else None
            if content is None:
                raise ValueError(f"it does not begin with {MANIFEST}")
            manifest = Manifest(**json.load(content))
        with gzip.open(archive) as whole:
            while whole.read(_AT_ONCE):
                pass
    except (OSError, EOFError, ValueError, TypeError, tarfile.TarError, zlib.error) as error:
        raise ConfigError(
            f"{archive} is no sound archive of twinlog: {error}",
            hint="make it anew: twinlog spark package",
            code="spark-archive",
        ) from None
    return manifest


def require_ours(archive: Path) -> None:
    """Raise ConfigError (`spark-archive`) if an archive is damaged, or for another Python or build than this process.

    Each task would decline it.
    """
    found = read(archive)
    differences = [
        f"{what} {theirs}, here is {ours}"
        for what, theirs, ours in (
            ("Python", found.python, running_python()),
            ("twinlog", found.build, BUILD),
        )
        if theirs != ours
    ]
    if differences:
        raise ConfigError(
            f"{archive} is for {'; and for '.join(differences)}",
            hint="make it anew with this twinlog and its Python: twinlog spark package",
            code="spark-archive",
        )

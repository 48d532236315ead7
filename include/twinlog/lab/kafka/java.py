"""Find the Java runtime for brokers once and check it, or say in one clear line what to install.

If JAVA_HOME is set, it is used and never silently ignored.  Without it PATH decides, then the usual install folders.
Kafka 4.x brokers need Java 17 or newer (KIP-750, KIP-1013).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twinlog.errors import TerminalError

OLDEST_JAVA = 17
INSTALL_HINT = (
    "install a JDK 17 or 21 (Debian: apt-get install openjdk-17-jre-headless) or point JAVA_HOME at one"
)
_INSTALL_FOLDERS = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))


@dataclass(frozen=True)
class Java:
    """A usable `java` executable and its feature release (17, 21, ...)."""

    path: Path
    version: int


def find_java() -> Java:
    """Return the Java to run brokers with, 17 or newer.

    Raises TerminalError (code `java`) if there is none, or if JAVA_HOME names an unsuitable one.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        return _java_of_home(Path(home))
    too_old: list[Java] = []
    for path in _candidates():
        version = version_of(path)
        if version >= OLDEST_JAVA:
            return Java(path, version)
        if version:
            too_old.append(Java(path, version))
    if too_old:
        raise _no_java(f"{too_old[0].path} is Java {too_old[0].version}, brokers need {OLDEST_JAVA} or newer")
    raise _no_java("no Java was found")


def _java_of_home(home: Path) -> Java:
    path = home / "bin" / "java"
    if not os.access(path, os.X_OK):
        raise _no_java(f"JAVA_HOME is {home}, but {path} is not an executable")
    version = version_of(path)
    if version < OLDEST_JAVA:
        raise _no_java(
            f"JAVA_HOME is {home}, Java {version or 'of unknown version'}; {OLDEST_JAVA} is needed"
        )
    return Java(path, version)


def _no_java(what: str) -> TerminalError:
    return TerminalError(what, hint=INSTALL_HINT, code="java")


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for folder in _INSTALL_FOLDERS:
        yield from sorted(folder.glob("*/bin/java"))
        yield from sorted(folder.glob("*/Contents/Home/bin/java"))


def run(command: Sequence[str | Path], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and keep what it prints.  Raises TimeoutExpired if that takes longer."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
    )


@cache
def version_of(java: Path) -> int:
    """Return the feature release that `java -version` reports, 0 if it does not run or the output is unknown."""
    try:
        answer = run([java, "-version"], 30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_version(answer.stderr + answer.stdout)


def parse_version(text: str) -> int:
    """Return the feature release in `java -version`'s output: 8 for "1.8.0_412", 17 for "17.0.15", else 0."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0

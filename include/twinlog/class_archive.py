"""Start Java programs in half the CPU time: an archive of the classes that they load, which a JVM maps into memory.

The JDK calls it a CDS archive (class data sharing; JEP 350).  A JVM writes one as it ends, if it was told to, and later
JVMs take the classes from it instead of reading, checking and linking them out of jars.

Invariants:

- A JVM is given an archive only if Java and the jars are those it was made with, and the file is as long as it was
  then: a JVM that maps a shortened one dies.  Anything else that does not fit (another class path, another collector)
  a JVM finds out by itself, and then starts as it would without.
- An archive appears whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_ENDING = ".jsa"
_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""An archive that does not fit is no matter for the user: a JVM would say so on stdout, which programs read."""


@dataclass(frozen=True)
class ClassArchive:
    """The archive called `name` of the classes in a folder of jars, for one `java`, in this user's cache."""

    name: str
    java: Path
    jars: Path

    @property
    def file(self) -> Path:
        """Return where it is or would be."""
        import platformdirs

        place = hashlib.sha256(f"{self.java.resolve()}\n{self.jars.resolve()}".encode()).hexdigest()[:12]
        return platformdirs.user_cache_path("twinlog") / "classes" / f"{self.name}-{place}{_ENDING}"

    def is_usable(self) -> bool:
        """Say whether it was made with this Java and these jars, and has the size that it had then."""
        try:
            made: object = json.loads(self._manifest.read_text())
            return made == {"bytes": self.file.stat().st_size, **self._made_with()}
        except (OSError, ValueError):
            return False

    def options(self) -> tuple[str, ...]:
        """Return the JVM options that use it; none if it is not usable."""
        if not self.is_usable():
            return ()
        return (f"-XX:SharedArchiveFile={self.file}", "-XX:+VerifySharedSpaces", *_QUIET)

    def make(self, run: Callable[[tuple[str, ...]], None]) -> bool:
        """Make it if it is not usable: `run` runs a program with the given JVM options, and lets it end.

        Returns False if the JVM wrote none.  Whoever else makes it at the same time is waited for.  Raises OSError if
        the cache cannot be written, and whatever `run` raises.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.file.with_suffix(f".{os.getpid()}")
        with self.file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.is_usable():
                return True
            try:
                run((f"-XX:ArchiveClassesAtExit={partial}", *_QUIET))
                if not partial.is_file():
                    return False
                made = {"bytes": partial.stat().st_size, **self._made_with()}
                self._manifest.unlink(missing_ok=True)
                partial.replace(self.file)
                self._manifest.write_text(json.dumps(made))
            finally:
                partial.unlink(missing_ok=True)
        return True

    @property
    def _manifest(self) -> Path:
        return self.file.with_suffix(".json")

    def _made_with(self) -> dict[str, object]:
        """Return what tells this Java and these jars from later ones: files, sizes, times (ns).  Raises OSError."""
        jars = [
            (path.name, path.stat().st_size, path.stat().st_mtime_ns)
            for path in sorted(self.jars.glob("*.jar"))
        ]
        java = self.java.resolve().stat()
        return {
            "java": [java.st_size, java.st_mtime_ns],
            "jars": hashlib.sha256(json.dumps(jars).encode()).hexdigest(),
        }

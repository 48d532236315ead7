"""The relays as contenders: franz-go where there is a Go to build it with, and confluent-kafka."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from bench.contenders import CORES, Contender, address, command
from twinlog.lab.kafka.broker import EmbeddedKafka

FRANZ_GO = "franz-go"
CONFLUENT = "confluent-kafka"

SOURCE = Path(__file__).with_name("franz_go")
BUILD_S = 600
_USUAL_PLACE = "/usr/local/go/bin"
"""Where Go is installed as its own page says, which is not on every PATH."""


class NotBuiltError(Exception):
    """The relay in Go cannot be built here."""


@dataclass(frozen=True)
class Relay(Contender):
    """A relay of records: a command that takes its settings as flags."""

    words: tuple[str | Path, ...] = ()

    creates_topics: ClassVar[bool] = False

    def properties(self, source: EmbeddedKafka, target: EmbeddedKafka, topics: str) -> str:
        """Return its flags, one a line.  Its group is a new one: nobody waits for a member that was killed."""
        pattern = "|".join(it.strip() for it in topics.split(","))
        flags = {
            "source": address(source, tls=self.tls),
            "target": address(target, tls=self.tls),
            "topics": f"^({pattern})$",
            "prefix": self.remote(""),
            "group": f"bench-{uuid4().hex}",
        }
        if self.tls:
            flags |= {"source-ca": str(source.certificates.ca), "target-ca": str(target.certificates.ca)}
        return "\n".join(f"--{name}={value}" for name, value in flags.items())

    @contextmanager
    def process(self, properties: str, folder: Path) -> Iterator[int]:
        """Start the command."""
        with command([*self.words, *properties.splitlines()], folder / "relay.log") as pid:
            yield pid


def relays(folder: Path) -> list[Relay]:
    """Build what needs building in `folder`; return the relays there are, and say which is left out."""
    loop = (sys.executable, "-m", "bench.peers.confluent_loop", f"--tasks={CORES}")
    found = [Relay(CONFLUENT, "C", words=loop)]
    try:
        found.append(Relay(FRANZ_GO, "G", words=(build(folder),)))
    except NotBuiltError as why:
        print(f"{FRANZ_GO} is left out: {why}", flush=True)
    return found


def build(folder: Path) -> Path:
    """Build the relay in Go into `folder`, if it is not there, and return the program.

    Raises NotBuiltError if there is no Go, or the build fails (a module cannot be fetched, for instance) or takes more
    than ten minutes.
    """
    program = (folder / "franz-go-relay").absolute()
    if program.exists():
        return program
    go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), _USUAL_PLACE]))
    if go is None:
        raise NotBuiltError(f"there is no go on the PATH or in {_USUAL_PLACE}")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [go, "build", "-o", program, "."],
            cwd=SOURCE,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuiltError(f"it cannot be built: {error}") from error
    if done.returncode:
        raise NotBuiltError(f"it cannot be built: {done.stderr.strip().rpartition(chr(10))[2]}")
    return program

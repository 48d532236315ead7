"""The contenders: MM2 with its default and with other guarantees, and twinlog; all copy to cluster B.

MM2 runs with its defaults, with a tuned producer, and with its exactly-once support; twinlog always
copies exactly once.  The relays beside them are in bench/peers.
"""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bench.process_tree import ProcessTree
from bench.topics import Kind
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.mirror_maker import MirrorMaker
from twinlog.lab.kafka.server_properties import Listener

CORES = 2
WARM = "warm"
"""A topic that every contender copies: once its first record has arrived, the contender has started."""

_COMMON = """
clusters = {alias}, B
{access}{alias}->B.enabled = true
{alias}->B.topics = {topics}
B->{alias}.enabled = false
emit.heartbeats.enabled = false
heartbeats.replication.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""

# A worker of MM2 that is paused while topics are filled must not leave its group: the rebalance would be measured.
_MM2 = f"""
tasks.max = {CORES}
B.session.timeout.ms = 600000
B.rebalance.timeout.ms = 600000
"""

_TUNED = """
B.producer.batch.size = 524288
B.producer.linger.ms = 20
B.producer.buffer.memory = 134217728
B.producer.max.request.size = 8388608
B.producer.max.in.flight.requests.per.connection = 5
"""

# A transaction for every poll (transaction.boundary's default), the fastest that MM2 offers.
_EXACTLY_ONCE = """
B.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:0
consumer.isolation.level = read_committed
"""


LISTENERS: dict[bool, tuple[Listener, ...]] = {False: (), True: (Listener.SSL,)}
"""Listeners of the brokers besides the plain one, without TLS and with it."""


def address(cluster: EmbeddedKafka, *, tls: bool) -> str:
    """Return the bootstrap servers that a contender gets."""
    return cluster.address(Listener.SSL) if tls else cluster.bootstrap_servers


def access(alias: str, cluster: EmbeddedKafka, *, tls: bool) -> str:
    """Return the lines of a file that say how to reach a cluster."""
    lines = [f"bootstrap.servers = {address(cluster, tls=tls)}"]
    if tls:
        trust = f"ssl.truststore.location = {cluster.certificates.ca}"
        lines += ["security.protocol = SSL", "ssl.truststore.type = PEM", trust]
    return "".join(f"{alias}.{line}\n" for line in lines)


@dataclass(frozen=True)
class Contender(ABC):
    """One replicator: its name in the tables, its alias of the source cluster, and more lines of its file."""

    name: str
    alias: str
    extra: str = ""
    tls: bool = False

    creates_topics: ClassVar[bool] = True
    """Whether it creates its topics on the target; for others the benchmark does."""

    def remote(self, topic: str) -> str:
        """Return the topic's name on the target."""
        return f"{self.alias}.{topic}"

    def volume(self, kind: Kind) -> int:
        """Return how many records of a kind it gets: what it copies in some seconds."""
        return kind.mm2_records

    def properties(self, source: EmbeddedKafka, target: EmbeddedKafka, topics: str) -> str:
        """Return its mm2.properties for some topics (patterns, comma separated)."""
        return self.extra + _COMMON.format(
            alias=self.alias,
            access=access(self.alias, source, tls=self.tls) + access("B", target, tls=self.tls),
            topics=topics,
        )

    @contextmanager
    def running(self, properties: str, folder: Path) -> Iterator[ProcessTree]:
        """Start the contender; it ends with the context."""
        folder.mkdir(parents=True, exist_ok=True)
        with self.process(properties, folder) as pid, ProcessTree(pid) as tree:
            yield tree

    @abstractmethod
    def process(self, properties: str, folder: Path) -> AbstractContextManager[int]:
        """Start its process, yield the id, and end it with the context."""


class MirrorMaker2(Contender):
    """MM2 in dedicated mode."""

    @contextmanager
    def process(self, properties: str, folder: Path) -> Iterator[int]:
        """Start MM2."""
        with MirrorMaker(properties, folder) as mirror_maker:
            yield mirror_maker.pid


class Twinlog(Contender):
    """`twinlog run`, which goes on for longer than any benchmark."""

    def volume(self, kind: Kind) -> int:
        """Return more records than for MM2."""
        return kind.twinlog_records

    @contextmanager
    def process(self, properties: str, folder: Path) -> Iterator[int]:
        """Start the command."""
        config = folder / "twinlog.properties"
        config.write_text(properties)
        with command([twinlog(), "run", "--for", "10h", "--config", config], folder / "twinlog.log") as pid:
            yield pid


@contextmanager
def command(words: Sequence[str | Path], log: Path) -> Iterator[int]:
    """Run a command and yield its process id; what it prints goes to `log`, and its last line to us if it dies.

    It is terminated with the context, and killed half a minute later.
    """
    with log.open("wb") as output, subprocess.Popen(words, stdout=output, stderr=output) as process:
        try:
            yield process.pid
        finally:
            if process.poll() is not None:
                last = log.read_text(errors="replace").strip().rpartition("\n")[2]
                print(f"{Path(words[0]).name} ended with {process.returncode}: {last}", flush=True)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def twinlog() -> Path:
    """Return the command beside the Python that runs this."""
    return Path(sys.executable).with_name("twinlog")


MM2 = MirrorMaker2("MM2 4.3.1", "M", _MM2)
TUNED = MirrorMaker2("MM2 4.3.1, tuned producer", "U", _MM2 + _TUNED)
EXACTLY_ONCE = MirrorMaker2("MM2 4.3.1, exactly once", "E", _MM2 + _EXACTLY_ONCE)
TWINLOG = Twinlog("twinlog", "A")

"""Brokers that refuse single requests, and a flow between two of them: one cycle at a time, and what became of it."""

from __future__ import annotations

import io
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path

from api_proxy import ApiProxy, How
from confluent_kafka.admin import AclBinding as ClientBinding
from confluent_kafka.admin import (
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab import Seen, ThreadRunner, commit_group, committed, configure, create_topic, produce, read
from twinlog.cli.inspection.check import check_flow
from twinlog.cli.replication.claim import SecondNames
from twinlog.cli.replication.cycle import Request, run_cycle
from twinlog.cluster import records
from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import packing
from twinlog.errors import ExitCode, TwinlogError
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.ports import free_row
from twinlog.trial.values import Answer

NOW = int(time.time() * 1000)
GIVE_UP_SECONDS = 8.0
ORDERS, GROUP = "orders", "readers"
BAD = {Answer.REFUSED, Answer.FAILED}
EVERY_RESOURCE = (
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.BROKER, "kafka-cluster"),
)


@dataclass
class Refusing:
    """A broker behind a proxy that refuses requests; `cluster` leads around it."""

    cluster: EmbeddedKafka
    proxy: ApiProxy

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers})


def start(running: ExitStack, name: str, folder: Path) -> Refusing:
    """Start a broker that tells clients of the proxy to come back through it, and a user who may do nothing."""
    proxy = ApiProxy()
    first, *_, hidden = free_row(4)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{first},SASL_PLAINTEXT://127.0.0.1:{first + 1},"
        f"PROXIED://127.0.0.1:{hidden},CONTROLLER://127.0.0.1:{first + 2}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{first},SASL_PLAINTEXT://127.0.0.1:{proxy.port},"
        f"PROXIED://127.0.0.1:{proxy.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
    }
    users = {"nobody": "nothing", "admin": "all"}
    cluster = EmbeddedKafka(
        name, folder, port=first, listeners=["SASL_PLAINTEXT"], users=users, settings=settings
    )
    proxy.broker = ("127.0.0.1", hidden)
    proxy.nobody = (("127.0.0.1", first + 1), "nobody", "nothing")
    running.callback(proxy.close)
    running.enter_context(cluster)
    result = Refusing(cluster, proxy)
    literal, everything, deny = ResourcePatternType.LITERAL, AclOperation.ALL, AclPermissionType.DENY
    denials = [
        ClientBinding(kind, name, literal, "User:nobody", "*", everything, deny)
        for kind, name in EVERY_RESOURCE
    ]
    admin = result.admin
    for future in admin.create_acls(denials).values():
        future.result(30)
    return result


@dataclass(frozen=True)
class Played:
    """The end of a cycle: the code with which it stopped ("": it did not), and the lines of a person's terminal."""

    code: str
    exit_code: int
    lines: tuple[str, ...]
    seconds: float

    def says(self, *words: str) -> bool:
        return any(it in line for line in self.lines for it in words)

    def __str__(self) -> str:
        head = f"code {self.code!r}, exit {self.exit_code}, {self.seconds:.1f} s"
        return "\n      ".join([head, *(line[:400] for line in self.lines)])


@dataclass
class World:
    """Two such brokers and a flow from one to the other, with everything switched on.

    `direct` leads around the proxies. `places` are the partitions with records.
    """

    sides: dict[str, Refusing]
    flow: FlowSettings
    direct: FlowSettings
    places: list[tuple[str, int]] = field(default_factory=lambda: [(ORDERS, 0)])

    @property
    def source(self) -> EmbeddedKafka:
        return self.sides["source"].cluster

    @property
    def target(self) -> EmbeddedKafka:
        return self.sides["target"].cluster

    def write(self, topic: str = ORDERS, partition: int = 0) -> None:
        """Write records that no other write has."""
        produce(self.source, topic, [Seen(b"k", uuid.uuid4().bytes, NOW) for _ in range(2)], partition)

    def move_group(self) -> int:
        """Let the group read on, and return its position on the target before."""
        commit_group(self.source, GROUP, ORDERS, committed(self.source, GROUP, ORDERS) + 1)
        return committed(self.target, GROUP, f"A.{ORDERS}")

    def new_place(self, topic: str, partition: int = 0) -> None:
        """Write to a partition that has no copy yet."""
        self.places.append((topic, partition))
        self.write(topic, partition)

    def stir(self, side: str, key: int) -> None:
        """Change what makes a flow send a request that not every cycle sends."""
        fresh = uuid.uuid4().hex[:6]
        with open_clusters(self.direct) as clusters:
            match side, key:
                case ("source", 32) | ("target", 19):
                    self.new_place(create_topic(self.source, f"new-{fresh}"))
                case ("source", 19):
                    clusters.source.delete_topics(["mm2-offset-syncs.B.internal"]).require()
                case ("target", 30):
                    acl = AclBinding("TOPIC", "LITERAL", ORDERS, f"User:{fresh}", "*", "READ", "ALLOW")
                    clusters.source.create_acls([acl]).require()
                case ("target", 37):
                    count = 1 + sum(topic == ORDERS for topic, _ in self.places)
                    clusters.source.create_partitions({ORDERS: count}).require()
                    self.new_place(ORDERS, count - 1)
                case ("target", 44):
                    bytes_ = str(1_000_000_000 + int(fresh, 16))
                    clusters.source.alter_topic_configs({ORDERS: {"retention.bytes": bytes_}}).require()
                case ("target", 49):
                    quota = {QuotaEntity.of({"user": fresh}): {"producer_byte_rate": 1e9}}
                    clusters.source.alter_quotas(quota).require()

    def play(self) -> Played:
        """Run a cycle as `twinlog run --once` does."""
        began, code, exit_code = time.monotonic(), "", ExitCode.CLUSTER
        with heard() as lines:
            try:
                with open_clusters(self.flow) as clusters:
                    done = run_cycle(
                        self.flow, clusters, Request(uuid.uuid4().hex), ThreadRunner, lambda _: None
                    )
                lines += [f"{it.code}: {it.message}; {it.hint}" for it in done.failures]
                code, exit_code = next((it.code for it in done.failures), ""), done.exit_code
            except TwinlogError as error:
                code = error.code
                lines.append(f"{error.code}: {error}")
        return Played(code, int(exit_code), tuple(lines), time.monotonic() - began)

    def check(self) -> Played:
        """Run `twinlog check --try` for the flow."""
        began, code, exit_code = time.monotonic(), "", ExitCode.CLUSTER
        with heard() as lines:
            try:
                found = check_flow(self.flow, SecondNames(), trial=True)
                lines += [f"missing {it.missing} {it.why}" for it in found.permissions if it.missing]
                lines += [f"{it.answer}: {it}" for it in found.tried if it.answer in BAD]
                exit_code = ExitCode.DONE if found.passed else ExitCode.SAYS_NO
            except TwinlogError as error:
                code = error.code
                lines.append(f"{error.code}: {error}")
        return Played(code, int(exit_code), tuple(lines), time.monotonic() - began)

    def copied(self, topic: str, partition: int) -> bool:
        """Say whether a partition is in the copy to its end; no record may ever be there twice, or before another."""
        there, records = self._copy(topic, partition), read(self.source, topic, partition)
        assert records[: len(there)] == there
        return len(there) == len(records)

    def _copy(self, topic: str, partition: int) -> list[Seen]:
        admin = self.sides["target"].admin
        found = admin.list_topics(timeout=30).topics.get(f"A.{topic}")
        if found is None or partition not in found.partitions:
            return []
        return read(self.target, f"A.{topic}", partition)


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what a run tells a person, and what is logged as a warning or worse; complete when the block ends."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"log {record.getMessage()}")

    listener = Listener(logging.WARNING)
    logging.getLogger().addHandler(listener)
    try:
        with redirect_stderr(io.StringIO()) as stderr:
            yield lines
    finally:
        lines += stderr.getvalue().splitlines()
        logging.getLogger().removeHandler(listener)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Two brokers, and a flow between them that has run once with everything allowed."""
    with ExitStack() as running:
        with ThreadPoolExecutor() as pool:
            waiting = {
                side: pool.submit(start, running, f"refusing-{side}", folder / side)
                for side in ("source", "target")
            }
            sides = {side: it.result() for side, it in waiting.items()}
        create_topic(sides["source"].cluster, ORDERS)
        proxied, direct = (
            load(
                configure(
                    folder,
                    dict(zip("AB", addresses, strict=True)),
                    ["A->B"],
                    topics=f"{ORDERS}, new.*",
                    sync__group__offsets__enabled="true",
                    sync__topic__acls__enabled="true",
                    twinlog__sync__quotas__enabled="true",
                    twinlog__lanes="2",
                )
            ).flows["A->B"]
            for addresses in (
                [f"127.0.0.1:{it.proxy.port}" for it in sides.values()],
                [it.cluster for it in sides.values()],
            )
        )
        made = World(sides, proxied, direct)
        made.write()
        commit_group(made.source, GROUP, ORDERS, 1)
        first = made.play()
        assert ("", 0) == (first.code, first.exit_code), first
        yield made


@contextmanager
def refused(made: World, side: str, key: int, how: How) -> Iterator[Counter[int]]:
    """Refuse one request on one side; yields how often each was refused.  The client library gives up sooner here."""
    proxy = made.sides[side].proxy
    proxy.refuse({key: how})
    packing._warn.cache_clear()  # told once in a process otherwise
    patient, records.REQUEST_SECONDS = records.REQUEST_SECONDS, GIVE_UP_SECONDS
    try:
        yield proxy.refusals.hit
    finally:
        records.REQUEST_SECONDS = patient
        proxy.refuse({})

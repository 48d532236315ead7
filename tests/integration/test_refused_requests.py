"""Clusters that refuse single requests: a cycle loses nothing, doubles nothing, and says in one line what is missing.

The table of docs/refused-requests.md (`twinlog.cluster.permissions.requests`) is tried here, request by request, in the
three ways in which clusters refuse: an answer that denies it, a broker that does not offer it, and one that ends the
connection.  Costs half a minute for the two brokers and the handful that is always tried.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from api_proxy import API_VERSIONS, ApiProxy, How
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab import Seen, ThreadRunner, commit_group, configure, create_topic, produce, read
from twinlog.cli.cycle import Request, run_cycle
from twinlog.cluster.open import open_clusters
from twinlog.cluster.permissions.requests import USES, Use
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.ports import free_ports

NOW = int(time.time() * 1000)
ALWAYS = {
    (32, "source", How.DENIED),
    (35, "source", How.HIDDEN),
    (22, "target", How.HIDDEN),
    (8, "target", How.DENIED),
}
"""The handful that is tried every day: configs, log dirs, transactions, and commits of groups."""


@dataclass
class Hedged:
    """A broker behind a proxy that refuses requests; `cluster` leads around it."""

    cluster: EmbeddedKafka
    proxy: ApiProxy

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"


def hedged(name: str, folder: Path) -> Hedged:
    proxy, ports = ApiProxy(), free_ports()
    first = next(port for port in ports)
    hidden = next(port for port in ports if abs(port - first) > 5)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{first},SASL_PLAINTEXT://127.0.0.1:{first + 1},"
        f"PROXIED://127.0.0.1:{hidden},CONTROLLER://127.0.0.1:{first + 2}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{first},SASL_PLAINTEXT://127.0.0.1:{first + 1},"
        f"PROXIED://127.0.0.1:{proxy.port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT",
    }
    cluster = EmbeddedKafka(
        name,
        folder,
        port=first,
        listeners=["SASL_PLAINTEXT"],
        users={"nobody": "nothing", "admin": "all"},
        settings=settings,
    )
    proxy.broker = ("127.0.0.1", hidden)
    proxy.nobody = (("127.0.0.1", first + 1), "nobody", "nothing")
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    everything = [
        AclBinding(
            kind,
            name,
            ResourcePatternType.LITERAL,
            "User:nobody",
            "*",
            AclOperation.ALL,
            AclPermissionType.DENY,
        )
        for kind, name in (
            (ResourceType.TOPIC, "*"),
            (ResourceType.GROUP, "*"),
            (ResourceType.TRANSACTIONAL_ID, "*"),
            (ResourceType.BROKER, "kafka-cluster"),
        )
    ]
    for future in admin.create_acls(everything).values():
        future.result(10)
    return Hedged(cluster, proxy)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Hedged]]:
    """A source and a target, and a flow between them that has run once with everything allowed."""
    made = {
        side: hedged(f"hedged-{side}", tmp_path_factory.mktemp(f"hedged-{side}") / "kafka")
        for side in ("source", "target")
    }
    yield made
    for it in made.values():
        it.cluster.stop()
        it.proxy.close()


@pytest.fixture(scope="module")
def flow(sides: dict[str, Hedged], tmp_path_factory: pytest.TempPathFactory) -> FlowSettings:
    """Everything is switched on: groups, offset syncs, heartbeats, configs, ACLs, quotas, users."""
    create_topic(sides["source"].cluster, "orders")
    path = configure(
        tmp_path_factory.mktemp("hedged-flow"),
        {"A": sides["source"].address, "B": sides["target"].address},
        ["A->B"],
        topics="orders, new.*",
        sync__group__offsets__enabled="true",
        sync__topic__acls__enabled="true",
        twinlog__sync__quotas__enabled="true",
        twinlog__lanes="2",
    )
    flow = load(path).flows["A->B"]
    write(sides, "orders", 3)
    commit_group(sides["source"].cluster, "readers", "orders", 2)
    assert "" == play(flow).code
    return flow


def write(sides: dict[str, Hedged], topic: str, count: int) -> None:
    known = len(read(sides["source"].cluster, topic))
    produce(sides["source"].cluster, topic, [Seen(b"k", b"%d" % n, NOW) for n in range(known, known + count)])


@dataclass(frozen=True)
class Played:
    """How a cycle ended: the code with which it stopped ("": it did not), and what it said."""

    code: str
    lines: tuple[str, ...]
    seconds: float

    def says(self, words: str) -> bool:
        return any(words in line for line in self.lines)


def play(flow: FlowSettings, capsys: Any = None, caplog: Any = None) -> Played:
    if caplog is not None:
        caplog.clear()
    began = time.monotonic()
    code, lines = "", []
    try:
        with open_clusters(flow) as clusters:
            done = run_cycle(flow, clusters, Request(f"run-{time.monotonic_ns()}"), ThreadRunner)
        lines += [f"{it.code}: {it.message}; {it.hint}" for it in done.failures]
        lines += [f"duty {it}" for it in done.duties if it.state == "failed"]
        code = next((it.code for it in done.failures), "")
    except TwinlogError as error:
        code = error.code
        lines.append(f"{type(error).__name__} {error}")
    if capsys is not None:
        lines += capsys.readouterr().err.splitlines()
    if caplog is not None:
        lines += [it.getMessage() for it in caplog.records if it.levelno >= logging.WARNING]
    return Played(code, tuple(lines), time.monotonic() - began)


def cases() -> Iterator[Any]:
    for use in USES:
        for how in How:
            always = (use.key, use.side, how) in ALWAYS
            yield pytest.param(
                use, how, marks=() if always else pytest.mark.long, id=f"{use.side}-{use.name}-{how}"
            )


@pytest.mark.parametrize(("use", "how"), cases())
def test_a_cycle_without_one_request(
    use: Use,
    how: How,
    sides: dict[str, Hedged],
    flow: FlowSettings,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What the table says happens, in one line; afterwards, with everything allowed, each record is there once."""
    new = create_topic(sides["source"].cluster, f"new-{time.monotonic_ns()}")
    write(sides, new, 2)
    write(sides, "orders", 2)
    commit_group(sides["source"].cluster, "readers", "orders", 3)
    capsys.readouterr()
    proxy = sides[use.side].proxy
    proxy.refuse({use.key: how})
    try:
        without = play(flow, capsys, caplog)
    finally:
        hits = proxy.refusals.hit[use.key]
        proxy.refuse({})
    if os.environ.get("TWINLOG_SHOW_REFUSED"):
        with capsys.disabled():
            print(f"\n== {use.side} {use.name} {how} hit {hits} code {without.code!r} {without.seconds:.1f}s")
            for line in without.lines:
                print("    " + line[:400])
    healed = play(flow)
    for topic in ("orders", new):
        assert read(sides["source"].cluster, topic) == read(sides["target"].cluster, f"A.{topic}")
    assert "" == healed.code
    if how is not How.HIDDEN:
        assert hits or not use.in_every_cycle
    assert use.stops == bool(without.code)
    assert not use.line or without.says(use.line)


def test_the_table_has_every_request_that_a_cycle_sends(sides: dict[str, Hedged], flow: FlowSettings) -> None:
    """On either side; logging in and learning what is offered aside."""
    for it in sides.values():
        it.proxy.refuse({})
    write(sides, "orders", 1)
    assert "" == play(flow).code
    for side, it in sides.items():
        listed = {use.key for use in USES if use.side == side}
        assert set() == set(it.proxy.refusals.asked) - listed - {API_VERSIONS}

"""A broker behind a proxy, drivers in processes of their own, and how quickly these brokers notice what is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from proxy import Proxy

from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.jars import KAFKA_VERSION, needs_zookeeper
from twinlog.lab.kafka.ports import free_row

MINUTES = float(os.environ.get("TWINLOG_CHAOS_MINUTES", "0"))
"""How long `make chaos` plays schedules of each kind in turn; 0 plays each once."""

QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
"""What is dead is known to be dead soon, transactions included."""


@dataclass
class Wired:
    """A broker and the proxy in front of it; `address` leads through the proxy, `cluster` around it."""

    cluster: EmbeddedKafka
    proxy: Proxy

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"


def wired_broker(name: str, folder: Path, version: str = KAFKA_VERSION) -> Wired:
    """A broker that is not started yet, behind a proxy."""
    proxy = Proxy()
    first, controller, hidden = free_row(3)
    proxy.target = ("127.0.0.1", hidden)
    listeners = f"PLAINTEXT://127.0.0.1:{first},PROXIED://127.0.0.1:{hidden}"
    protocols = "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT"
    if not needs_zookeeper(version):
        listeners += f",CONTROLLER://127.0.0.1:{controller}"
        protocols += ",CONTROLLER:PLAINTEXT"
    settings = QUICK | {
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{first},PROXIED://127.0.0.1:{proxy.port}",
        "listener.security.protocol.map": protocols,
    }
    return Wired(EmbeddedKafka(name, folder, version, port=first, settings=settings), proxy)


def start_driver(config: Path) -> subprocess.Popen[str]:
    """Start a driver in a process group of its own."""
    script = Path(__file__).with_name("driver_process.py")
    return subprocess.Popen(
        [sys.executable, str(script), str(config), "A->B"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

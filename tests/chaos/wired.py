"""A broker behind a proxy, drivers in processes of their own, and how quickly these brokers notice what is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy import Proxy

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

    cluster: Any
    proxy: Proxy

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"


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

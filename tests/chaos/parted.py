"""Three brokers that reach each other through proxies only: they can be parted, and clients still reach them all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import javaproperties
import psutil
from proxy import Faults, Proxy
from wired import QUICK

from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.ports import free_row

NODES = (1, 2, 3)
TWO_IN_SYNC = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "3000"}


class Parted:
    """A cluster of three; `links` holds what is done to the connections from one node to another, by their ids.

    Brokers speak to each other on a listener of their own.  It and the controllers' lead through a proxy for each
    node, which knows by its port which process a connection came from.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.cluster = EmbeddedKafka(name, folder, nodes=3, settings=QUICK | TWO_IN_SYNC)
        self.between = {(a, b): Faults() for a in NODES for b in NODES}
        self.controllers = {(a, b): Faults() for a in NODES for b in NODES}
        self._proxies: list[Proxy] = []

    def start(self) -> None:
        """Start the brokers as they are made, then with a proxy before each listener that only they use."""
        self.cluster.start()
        self.cluster.stop()
        brokers = {node: self._proxy(node, self.between) for node in NODES}
        controllers = {node: self._proxy(node, self.controllers) for node in NODES}
        voters = ",".join(f"{node}@127.0.0.1:{controllers[node].port}" for node in NODES)
        for node in NODES:
            path = self.cluster.folder / f"node-{node}" / "server.properties"
            settings = javaproperties.loads(path.read_text())
            own, (hidden,) = settings["controller.quorum.voters"].split(","), free_row(1)
            brokers[node].target = ("127.0.0.1", hidden)
            controllers[node].target = ("127.0.0.1", int(own[node - 1].rpartition(":")[2]))
            settings |= {
                "controller.quorum.voters": voters,
                "listeners": f"{settings['listeners']},BETWEEN://127.0.0.1:{hidden}",
                "advertised.listeners": f"{settings['advertised.listeners']},"
                f"BETWEEN://127.0.0.1:{brokers[node].port},CONTROLLER://127.0.0.1:{controllers[node].port}",
                "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},BETWEEN:PLAINTEXT",
                "inter.broker.listener.name": "BETWEEN",
            }
            path.write_text(javaproperties.dumps(settings))
        self.cluster.start()

    def stop(self) -> None:
        """Stop brokers and proxies."""
        self.cluster.stop()
        for proxy in self._proxies:
            proxy.close()

    @contextmanager
    def parted(self, node: int, *, from_controllers: bool) -> Iterator[None]:
        """Let nothing pass between `node` and the others, by the network of `from_controllers` either."""
        cut = list(_links_of(node, self.between))
        if from_controllers:
            cut += _links_of(node, self.controllers)
        for faults in cut:
            faults.silent = True
        try:
            yield
        finally:
            for faults in cut:
                faults.silent = False

    def _proxy(self, node: int, links: dict[tuple[int, int], Faults]) -> Proxy:
        proxy = Proxy(lambda port: links[self._owner(port, node), node])
        self._proxies.append(proxy)
        return proxy

    def _owner(self, port: int, otherwise: int) -> int:
        """Return the node whose process has this end of a connection; `otherwise` if it is gone already."""
        for node, pid in zip(NODES, self.cluster.pids, strict=False):
            with suppress(psutil.Error):
                if any(it.laddr.port == port for it in psutil.Process(pid).net_connections("tcp")):
                    return node
        return otherwise


def _links_of(node: int, links: dict[tuple[int, int], Faults]) -> Iterable[Faults]:
    return (faults for (one, other), faults in links.items() if one != other and node in {one, other})

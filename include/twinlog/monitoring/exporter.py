"""Keep the numbers of the flows that this process works for, and show them: in a text file and over HTTP.

Both show the same.  A number that nobody told for a while is shown no more: it would tell of a time that is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from wsgiref.simple_server import WSGIServer

from twinlog.config.flow.metrics import Listen
from twinlog.config.flow.settings import FlowSettings
from twinlog.grouped import grouped
from twinlog.monitoring.metrics import PREFIX, Kind, Metric, Sample, shown

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import CollectorRegistry

KEPT_SECONDS = 180.0
"""How long a number is shown that is told each minute."""

AGAIN_SECONDS = 10.0
"""Pause between two attempts to listen at an address that is taken."""


@dataclass(slots=True)
class Board:
    """The numbers that this process knows of one flow, by the part of it that told them.

    Other threads read it, so each part is replaced as a whole.
    """

    flow: FlowSettings
    parts: dict[str, tuple[float, tuple[Sample, ...]]] = field(default_factory=dict)

    def tell(self, part: str, samples: Iterable[Sample], keep_seconds: float = KEPT_SECONDS) -> None:
        """Replace what a part told before; it is shown for `keep_seconds`."""
        told = shown(samples, self.flow.metrics.topics)
        self.parts[part] = (time.monotonic() + keep_seconds, told)

    def clear(self) -> None:
        """Forget everything: what was seen before says nothing of now."""
        self.parts = {}

    def now(self) -> tuple[Sample, ...]:
        """Return the numbers that may be shown now."""
        at = time.monotonic()
        return tuple(sample for until, told in list(self.parts.values()) if at < until for sample in told)

    def write(self, folder: Path) -> Path:
        """Write the numbers for node_exporter and return the file; a missing folder is created.

        No reader sees half of the file.  Raises OSError if it cannot be written.
        """
        from prometheus_client import write_to_textfile

        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"twinlog-{self.flow.name.replace('->', '__')}.prom"
        write_to_textfile(str(path), registry_of([self]))
        return path


def registry_of(boards: Sequence[Board]) -> CollectorRegistry:
    """Return a registry that shows what the boards hold whenever it is asked."""
    from prometheus_client import CollectorRegistry

    class Shown:
        def collect(self) -> Iterator[Family]:
            return families({board.flow.name: board.now() for board in boards})

    registry = CollectorRegistry()
    registry.register(Shown())
    return registry


def families(samples: Mapping[str, Iterable[Sample]]) -> Iterator[Family]:
    """Make Prometheus' families of samples, which are by flow.  Pure."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    found: dict[Metric, Any] = {}
    for flow, told in samples.items():
        for sample in told:
            metric = sample.metric
            if metric not in found:
                made = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
                found[metric] = made(f"{PREFIX}{metric.name}", metric.help, labels=("flow", *metric.labels))
            found[metric].add_metric((flow, *sample.labels), sample.value)
    return iter(found.values())


@dataclass(slots=True)
class Endpoint:
    """An address at which the numbers of some flows can be asked for.

    If it is taken, `say` gets one line, and `attend` opens it once it is free: a process that stands by on the same
    machine as its leader has the same address.
    """

    at: Listen
    boards: Sequence[Board]
    say: Callable[[str], None]
    server: WSGIServer | None = None
    next_try: float = 0.0
    told: str = ""

    def attend(self) -> None:
        """Listen, if that is not so yet; an address that is taken is tried again after a while."""
        if self.server is not None or time.monotonic() < self.next_try:
            return
        from prometheus_client import start_http_server

        self.next_try = time.monotonic() + AGAIN_SECONDS
        try:
            self.server, _ = start_http_server(self.at.port, self.at.host, registry_of(self.boards))
        except OSError as error:
            line = (
                f"no metrics at {self.at}: {error.strerror or error} (twinlog.metrics.listen);"
                " the copy goes on without, and the address is tried again"
            )
        else:
            line = f"metrics at http://{self.at}/metrics"
        if line != self.told:
            self.told = line
            self.say(line)

    def close(self) -> None:
        """Listen no more."""
        if self.server is not None:
            with suppress(OSError):
                self.server.shutdown()
                self.server.server_close()
            self.server = None


class Endpoints:
    """The addresses at which the flows of this process are to be asked for: one for several flows, or none."""

    def __init__(self, boards: Iterable[Board], say: Callable[[str], None]) -> None:
        at = grouped((listen, board) for board in boards if (listen := board.flow.metrics.listen) is not None)
        self.all = tuple(Endpoint(address, its, say) for address, its in at.items())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for endpoint in self.all:
            endpoint.close()

    def attend(self) -> None:
        """Listen at every address that is free."""
        for endpoint in self.all:
            endpoint.attend()

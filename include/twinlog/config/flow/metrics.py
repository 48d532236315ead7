"""The settings of the metrics: where a flow's numbers are shown (`twinlog.metrics.*`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from twinlog.config.file.keys import Kind
from twinlog.config.flow.values import PATH, Value, setting


class Listen(NamedTuple):
    """An address of this machine to listen at."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _address_of(text: str) -> Listen:
    """Raise ValueError for what is no host and port; a host with colons is in brackets."""
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]]+)):(\d{1,5})", text.strip())
    if found is None or not 0 < int(found[3]) < 2**16:
        raise ValueError(text)
    return Listen(found[1] or found[2], int(found[3]))


_LISTEN: Value[Listen | None] = Value(
    Kind.STRING,
    lambda read, key: read.parsed(key, _address_of, "is no address to listen at, such as 127.0.0.1:9404"),
)


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Tell where the numbers of a flow are shown, and how many of its topics have numbers of their own."""

    folder: Path | None = setting(PATH, "twinlog.metrics.folder", None)
    """folder into which each cycle, and each minute of a run that follows, writes its numbers as `twinlog-A__B.prom`,
    for the textfile collector of Prometheus' node_exporter"""
    listen: Listen | None = setting(_LISTEN, "twinlog.metrics.listen", None)
    """address, such as `127.0.0.1:9404`, at which `twinlog run --follow` and `--for` serve the same numbers for
    Prometheus, in clear and without a login ([metrics](metrics.md))"""
    topics: int = 500
    """how many topics of a flow have numbers of their own; the others, last by name, are one: `(other)`"""

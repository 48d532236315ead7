"""Check a Spark master before Spark does: Spark tries for minutes and reports at length."""

from __future__ import annotations

import re
import socket

from twinlog.config.flow.copying import MASTERS, SPARK_MASTER
from twinlog.errors import TransientError, UsageError

CONNECT_SECONDS = 5.0
ADDRESS = re.compile(r"(?P<scheme>spark|sc)://(?P<host>[^:/,;]+|\[[^]]+\]):?(?P<port>\d*)")
PORTS = {"spark": 7077, "sc": 15002}


def check_master(master: str) -> None:
    """Raise UsageError if the text is not a master, TransientError if nothing listens there.

    Only a single host can be tried; several (a standalone cluster with standby masters) are left to Spark.
    """
    if not SPARK_MASTER.fullmatch(master):
        raise UsageError(f"{master!r} is no Spark master", hint=MASTERS)
    address = ADDRESS.match(master)
    if address is None or "," in master:
        return
    host, port = address["host"].strip("[]"), int(address["port"] or PORTS[address["scheme"]])
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise TransientError(
            f"no Spark session on {without_options(master)}: {host}:{port} does not answer"
            f" ({error.strerror or error})",
            hint="check that the Spark master or Connect server runs there",
            code="spark-session",
            master=without_options(master),
        ) from None


def without_options(master: str) -> str:
    """Remove the options after the address of a Connect server: they may include a token."""
    return master.split(";", 1)[0]

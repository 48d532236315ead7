"""A Spark master, looked at before Spark is: Spark itself tries for minutes, and says what was wrong at length."""

from __future__ import annotations

import re
import socket

from twinlog.config.flow.copying import MASTERS, SPARK_MASTER
from twinlog.errors import TransientError, UsageError

CONNECT_SECONDS = 5.0
ADDRESS = re.compile(r"(?P<scheme>spark|sc)://(?P<host>[^:/,;]+|\[[^]]+\]):?(?P<port>\d*)")
PORTS = {"spark": 7077, "sc": 15002}


def check_master(master: str) -> None:
    """Raise UsageError for what is no master, TransientError for one where nothing listens.

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
    """Leave out what follows the address of a Connect server: a token may be among it."""
    return master.split(";", 1)[0]

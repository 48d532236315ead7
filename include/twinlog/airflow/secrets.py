"""`${airflow:conn_id}` and `${airflow:conn_id:field}` in a configuration file: values of Airflow connections.

Only a task can ask Airflow.  It hands the values to the Spark job that it starts, in one environment variable of its
own process.  A Dag file needs no secret and gets a stand-in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from twinlog.config.file.providers import LookupFailedError
from twinlog.config.security.connection import HANDED_OVER
from twinlog.errors import TransientError

_FIELDS = frozenset({"login", "password", "host", "port", "schema"})


def ask_airflow(conn_id: str, field: str) -> str:
    """Return a field of an Airflow connection: login, password, host, port, schema, or a key of its extra.

    Raises LookupFailedError if the connection does not have the field, TransientError if there is no such connection:
    Airflow says the same if a secrets back end does not answer.
    """
    from airflow.sdk import Connection

    from twinlog.airflow.versions import AirflowNotFoundException

    try:
        connection = Connection.get(conn_id)
    except AirflowNotFoundException as error:
        raise TransientError(
            f"Airflow has no connection {conn_id}, or its secrets back end does not answer",
            f"add the connection {conn_id}, or look at the back end",
            code="config-provider",
            connection=conn_id,
        ) from error
    value = getattr(connection, field) if field in _FIELDS else connection.extra_dejson.get(field)
    if value is None:
        raise LookupFailedError(f"Airflow's connection {conn_id} has no {field}")
    return str(value)


class RememberedConnections:
    """`ask_airflow` that remembers its answers, so that they can be handed to a Spark job."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, str]] = {}

    def __call__(self, conn_id: str, field: str) -> str:
        """Ask, and remember."""
        value = ask_airflow(conn_id, field)
        self._answers.setdefault(conn_id, {})[field] = value
        return value

    def environment(self) -> Mapping[str, str]:
        """Return the variable that hands the answers over; empty if no value was asked for."""
        return {HANDED_OVER: json.dumps(self._answers)} if self._answers else {}

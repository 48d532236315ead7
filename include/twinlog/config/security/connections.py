"""`${airflow:...}` in a Spark job: the Airflow task that started the job has looked the values up.

They are handed over in one variable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from twinlog.config.file.providers import AirflowResolver, LookupFailedError

HANDED_OVER = "TWINLOG_AIRFLOW_CONNECTIONS"


def handed_over(environ: Mapping[str, str] = os.environ) -> AirflowResolver | None:
    """Return the resolver in a job that an Airflow task started, else None."""
    text = environ.get(HANDED_OVER)
    if text is None:
        return None
    answers = json.loads(text)

    def look_up(conn_id: str, field: str) -> str:
        try:
            return str(answers[conn_id][field])
        except KeyError as error:
            raise LookupFailedError(
                f"the task that started this job did not look up {conn_id} {field}"
            ) from error

    return look_up

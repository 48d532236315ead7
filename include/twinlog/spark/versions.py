"""Whether the PySpark that is installed can be used: the extra `spark` brings it, Airflow's provider its client.

Both install into the same folder, so of two versions the files of whichever came last are there.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from twinlog.errors import UsageError


def require_spark(master: str) -> None:
    """Raise UsageError if there is no PySpark for this master, or a client of another version lies in its folder."""
    spark, client = _version("pyspark"), _version("pyspark-client")
    if spark is None and (client is None or not master.startswith("sc://")):
        raise UsageError(
            "PySpark, which copies and compares, is not installed",
            hint="pip install 'twinlog[spark]'",
            code="not-installed",
        )
    if None not in {spark, client} and spark != client:
        raise UsageError(
            f"pyspark {spark} and pyspark-client {client} lie in one folder, and must be equal",
            hint=f"pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}",
            code="spark-version",
        )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None

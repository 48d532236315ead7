"""Hold what Airflow needs: Dags, tasks, operators, retry rules, the plugin.  No other package imports airflow."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return what `airflow providers list` asks of the entry point `apache_airflow_provider`."""
    return {
        "package-name": "twinlog",
        "name": "twinlog",
        "description": "Kafka disaster-recovery replication: Dags, operators, a sensor, a notifier and a page per flow",
        "notifications": [f"{__name__}.notifiers.FlowNotifier"],
        "extra-links": [f"{__name__}.plugin.links.FlowPageLink"],
    }


def flow_dags(prefix: str = "") -> dict[str, Any]:
    """Return twinlog's Dags by their ids; as `twinlog.airflow.dags.flow_dags`.

    # dags/replication.py
    from twinlog.airflow import flow_dags

    globals().update(flow_dags(prefix="dr_"))
    """
    from twinlog.airflow import dags  # here: most modules of this package need none

    return dags.flow_dags(prefix)

"""What `airflow providers list` shows of twinlog: its entry point `apache_airflow_provider`."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return what Airflow asks of a provider.  Every component asks, so nothing is imported here."""
    here = "twinlog.airflow"
    return {
        "package-name": "twinlog",
        "name": "twinlog",
        "description": "Kafka disaster-recovery replication: Dags, operators, a sensor, a notifier and a page per flow",
        "notifications": [f"{here}.notifiers.FlowNotifier"],
        "extra-links": [f"{here}.plugin.links.FlowPageLink"],
    }

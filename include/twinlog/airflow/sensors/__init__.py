"""The sensor that waits until a flow is ready for a failover, for Dags of your own."""

from twinlog.airflow.sensors.readiness import FailoverReadinessSensor

__all__ = ["FailoverReadinessSensor"]

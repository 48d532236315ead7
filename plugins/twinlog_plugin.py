"""Register with Airflow what twinlog.airflow provides, where its entry point does not: twinlog is on the path only."""

from importlib.metadata import entry_points

if "twinlog" not in entry_points(group="airflow.plugins").names:
    from twinlog.airflow.plugin.registration import TwinlogPlugin  # noqa: F401  Airflow looks for it here

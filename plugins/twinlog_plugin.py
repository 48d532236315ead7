"""Register with Airflow what twinlog.airflow provides."""

from __future__ import annotations

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from twinlog.airflow.plugin.app import FASTAPI_APP, NAV_ENTRY
from twinlog.airflow.preload import preload


class TwinlogPlugin(AirflowPlugin):
    """The page with flows, topics, lag and the last cycle."""

    name = "twinlog"
    fastapi_apps: ClassVar = [FASTAPI_APP]
    external_views: ClassVar = [NAV_ENTRY]


preload()

"""Register with Airflow what twinlog.airflow provides."""

from __future__ import annotations

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from twinlog.airflow.plugin.links import FlowPageLink
from twinlog.airflow.plugin.preload import preload
from twinlog.airflow.plugin.registration import FASTAPI_APP, NAV_ENTRY


class TwinlogPlugin(AirflowPlugin):
    """The pages with flows, topics, lag and all that is known of them, and the buttons that lead to them."""

    name = "twinlog"
    fastapi_apps: ClassVar = [FASTAPI_APP]
    external_views: ClassVar = [NAV_ENTRY]
    operator_extra_links: ClassVar = [FlowPageLink()]


preload()

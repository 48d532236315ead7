"""Register the pages with Airflow.  Every component loads every plugin, so nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from twinlog.airflow.plugin.links import PREFIX, FlowPageLink
from twinlog.airflow.versions import QueuedUnlessBackfill

_Message = MutableMapping[str, Any]


async def lazy_app(
    scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
) -> None:
    """Pass a request on to the pages' application, which the first request imports.

    Only the API server calls this.
    """
    from twinlog.airflow.plugin.app import app

    await app(scope, receive, send)


class TwinlogPlugin(AirflowPlugin):  # type: ignore[misc]
    """The pages with all that is known of flows, the buttons that lead to them, and how cycles' deadlines count."""

    name = "twinlog"
    fastapi_apps: ClassVar = [{"app": lazy_app, "url_prefix": PREFIX, "name": "twinlog"}]
    external_views: ClassVar = [
        {
            "name": "twinlog",
            "href": f"{PREFIX.lstrip('/')}/",
            "destination": "nav",
            "url_route": "replication",
        }
    ]
    operator_extra_links: ClassVar = [FlowPageLink()]
    deadline_references: ClassVar = [QueuedUnlessBackfill]

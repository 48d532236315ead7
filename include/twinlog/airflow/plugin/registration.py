"""Register the pages with Airflow.  Every component loads every plugin, so nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from twinlog.airflow.plugin.links import PREFIX

_Message = MutableMapping[str, Any]


async def lazy_app(
    scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
) -> None:
    """Pass a request on to the pages' application, which the first request imports.

    Only the API server calls this.
    """
    from twinlog.airflow.plugin.app import app

    await app(scope, receive, send)


FASTAPI_APP = {"app": lazy_app, "url_prefix": PREFIX, "name": "twinlog"}

NAV_ENTRY = {
    "name": "twinlog",
    "href": f"{PREFIX.lstrip('/')}/",
    "destination": "nav",
    "url_route": "replication",
}

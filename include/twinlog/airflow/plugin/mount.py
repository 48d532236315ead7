"""Mount the page in Airflow's UI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

PREFIX = "/twinlog"

_Message = MutableMapping[str, Any]


async def lazy_app(
    scope: _Message,
    receive: Callable[[], Awaitable[_Message]],
    send: Callable[[_Message], Awaitable[None]],
) -> None:
    """Pass a request on to the page's application, which the first request imports.

    Every component of Airflow loads every plugin; only the API server calls this.
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

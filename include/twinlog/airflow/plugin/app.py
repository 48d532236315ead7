"""The page's web application in Airflow's UI, behind Airflow's own authentication: read-only, two addresses.

Airflow leaves a plugin's endpoints open unless they check the login.  Here the whole application checks it, so that no
route can be forgotten.  FastAPI's own documentation pages would not check it, so they are off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from importlib.resources import files
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from airflow.configuration import conf
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse
from jinja2 import Environment, Template

from twinlog.airflow.plugin.status import StatusCache, look_at_flows
from twinlog.airflow.plugin.view import json_of, page_of

app = FastAPI(
    title="twinlog",
    dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)

_status = StatusCache(look_at_flows)


@app.get("/", response_class=HTMLResponse)
def page() -> str:
    """Show every flow."""
    base = conf.get("api", "base_url", fallback="").rstrip("/") + "/"
    return _template().render(page=page_of(_status.get()), base=base)


@app.get("/status.json")
def status() -> dict[str, Any]:
    """Return the same as JSON."""
    return json_of(_status.get())


@cache
def _template() -> Template:
    # Topic names come from clusters where any user may name topics: everything is escaped.
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)


PREFIX = "/twinlog"
_Message = MutableMapping[str, Any]


async def lazy_app(
    scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
) -> None:
    """Pass a request on to the page's application, which the first request imports.

    Every component of Airflow loads every plugin; only the API server calls this.
    """
    await app(scope, receive, send)


FASTAPI_APP = {"app": lazy_app, "url_prefix": PREFIX, "name": "twinlog"}

NAV_ENTRY = {
    "name": "twinlog",
    "href": f"{PREFIX.lstrip('/')}/",
    "destination": "nav",
    "url_route": "replication",
}

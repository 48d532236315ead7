"""The pages' web application in Airflow's UI, behind Airflow's own authentication: read-only.

Airflow leaves a plugin's endpoints open unless they check the login.  Here the whole application checks it, so that no
route can be forgotten.  FastAPI's own documentation pages would not check it, so they are off.
"""

from __future__ import annotations

import secrets
import time
from functools import cache
from importlib.resources import files

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import DictLoader, Environment, StrictUndefined

from twinlog.airflow.flows import slug
from twinlog.airflow.plugin.flow_page import FlowPage, flow_page_of
from twinlog.airflow.plugin.links import dags_address
from twinlog.airflow.plugin.overview import Overview, json_of, overview_of
from twinlog.airflow.plugin.reading import Reader, SeenFlow
from twinlog.airflow.plugin.reports import page_at
from twinlog.airflow.words import in_airflow
from twinlog.gate.record import duration, moment, number
from twinlog.jsonable import Json

NAMES = ("base.html", "parts.html", "overview.html", "flow.html")


def draw(name: str, page: Overview | FlowPage, *, dags: str, nonce: str) -> str:
    """Draw a page by its template; `dags` is where Airflow shows Dags, `nonce` names the only script that may run.

    Everything that a cluster or a file named is escaped.
    """
    return _environment().get_template(name).render(page=page, dags=dags, nonce=nonce)


@cache
def _environment() -> Environment:
    texts = {name: files(__package__).joinpath(name).read_text(encoding="utf-8") for name in NAMES}
    environment = Environment(
        loader=DictLoader(texts),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "moment": moment,
        "duration": duration,
        "number": number,
        "in_airflow": in_airflow,
    }
    return environment


app = FastAPI(
    title="twinlog",
    dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
    docs_url=None,
    redoc_url=None,
    openapi_url=None,
)

_reader = Reader()

_ONLY_OURS = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'self'; script-src 'nonce-{nonce}'"
)
"""Let a page load nothing but itself, so that a name that got past the escaping could not run anything either."""

_A_REPORT = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline';"
    " script-src 'unsafe-inline'"
)
"""A report is a file: it runs without the viewer's login."""


@app.get("/")
def overview() -> HTMLResponse:
    """Show every flow, worst first."""
    return _drawn("overview.html", overview_of(_reader.get(), time.time()))


@app.get("/flow/{name}")
def flow(name: str) -> HTMLResponse:
    """Show one flow."""
    return _drawn("flow.html", flow_page_of(_found(name), time.time()))


@app.get("/flow/{name}/reports/{path:path}")
def report(name: str, path: str) -> HTMLResponse:
    """Show a page that the gate or a cycle's checks have kept."""
    text = page_at(_found(name).flow, path)
    if text is None:
        raise HTTPException(404, "no such report: it may have been deleted by a newer one")
    return _html(text, _A_REPORT)


@app.get("/status.json")
def status() -> JSONResponse:
    """Return the overview as JSON; 503 until every flow was read once."""
    seen = _reader.get()
    document: Json = json_of(seen)
    if seen.being_read:
        return JSONResponse(document, 503, headers={"Retry-After": "2"})
    return JSONResponse(document)


def _found(name: str) -> SeenFlow:
    seen = _reader.get()
    for seen_flow in seen.flows:
        if slug(seen_flow.dag_id) == name:
            return seen_flow
    why = seen.error or "the configuration names no such flow that is enabled"
    raise HTTPException(
        404 if seen.at else 503, why if seen.at else "the configuration is being read; try again"
    )


def _drawn(name: str, page: Overview | FlowPage) -> HTMLResponse:
    nonce = secrets.token_urlsafe(16)
    return _html(draw(name, page, dags=dags_address(), nonce=nonce), _ONLY_OURS.format(nonce=nonce))


def _html(text: str, may_load: str) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": may_load, "Cache-Control": "no-store"})

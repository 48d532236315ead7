"""Draw the pages from their templates: everything that a cluster or a file named is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from twinlog.airflow.plugin.flow_page import LEVELS, FlowPage
from twinlog.airflow.plugin.overview import Overview
from twinlog.gate.record import duration, moment, number

NAMES = ("base.html", "parts.html", "overview.html", "flow.html")


def draw_overview(page: Overview, *, airflow: str, nonce: str) -> str:
    """Draw the page of all flows; `airflow` is Airflow's address, `nonce` names the only script that may run."""
    return _draw("overview.html", {"page": page, "airflow": airflow, "nonce": nonce})


def draw_flow(page: FlowPage, *, airflow: str, nonce: str) -> str:
    """Draw the page of one flow."""
    return _draw("flow.html", {"page": page, "airflow": airflow, "nonce": nonce, "levels": LEVELS})


def _draw(name: str, values: Mapping[str, Any]) -> str:
    return _environment().get_template(name).render(values)


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
    environment.filters |= {"moment": moment, "duration": duration, "number": number}
    return environment

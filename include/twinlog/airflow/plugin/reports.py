"""Find the pages that checks have kept in a flow's folder of reports, and open one of them for a viewer.

Evidence lies beside them and is not shown: only pages of HTML are, from the two folders of reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twinlog.config.flow.settings import FlowSettings
from twinlog.judge.data_docs import reports_folder

KINDS = {"gate": "Readiness gate", "validate": "Cycle's checks"}
SHOWN = 5
"""Reports of each kind that a page links to."""


@dataclass(frozen=True, slots=True)
class KeptReport:
    """One report: the `pages` are paths below the flow's folder, by what they show."""

    title: str
    name: str
    pages: tuple[tuple[str, str], ...]


def kept_reports(flow: FlowSettings) -> tuple[KeptReport, ...]:
    """Return the newest reports of each kind, newest first; none if the folder is on another machine."""
    return tuple(report for kind in KINDS for report in _newest(flow, kind))


def _newest(flow: FlowSettings, kind: str) -> Iterator[KeptReport]:
    try:
        folders = sorted(
            (path for path in reports_folder(flow, kind).iterdir() if path.is_dir()), reverse=True
        )
    except OSError:
        return
    for folder in folders[:SHOWN]:
        pages = {"page": "gate.html", "Data Docs": "data-docs/index.html"}
        if kind != "gate":
            pages = {"Data Docs": "index.html"}
        found = tuple(
            (label, f"{kind}/{folder.name}/{path}")
            for label, path in pages.items()
            if (folder / path).is_file()
        )
        if found:
            yield KeptReport(KINDS[kind], folder.name, found)


def page_at(flow: FlowSettings, path: str) -> str | None:
    """Return a page of a report as text; None for anything else, whatever the path tries."""
    kind, _, rest = path.partition("/")
    if kind not in KINDS or not rest:
        return None
    try:
        folder = reports_folder(flow, kind).resolve()
        page = (folder / rest).resolve()
        if page.suffix != ".html" or not page.is_relative_to(folder):
            return None
        return page.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None

"""Write Great Expectations' Data Docs, readable without internet, into the folder of reports.

Great Expectations draws the page of a validation (its renderer and templates).  The page it would write loads
Bootstrap, jQuery, fonts and its logo from ten other hosts, and stays blank without them.  Here the content is put into
our own frame, which brings the little style and script that the content needs.  The folder has a subfolder per flow
and kind, in it one per run; the oldest runs are deleted.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import platformdirs

from twinlog.clock import iso
from twinlog.config.flow.settings import FlowSettings
from twinlog.judge.check import Judged

_CONTENT = re.compile(r'<div class="container-fluid.*?(?=<footer|</body>)', re.DOTALL)

_FOREIGN = re.compile(
    r"<script\b.*?</script>|<link\b[^>]*>|<img\b[^>]*>|@import[^;]*;|url\([^)]*\)", re.DOTALL | re.IGNORECASE
)

_LINK_OUT = re.compile(r'(?:href|src)="(?:https?:)?//[^"]*"', re.IGNORECASE)

_TO_SUITE = re.compile(r'<a href="[^"#]*expectations/[^"]*"[^>]*>(.*?)</a>', re.DOTALL)


def write_data_docs(folder: Path, title: str, validated: Sequence[Judged]) -> Path:
    """Write a page per suite, and an index of them, into a folder; return the index."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in validated:
        (folder / f"{one.suite.name}.html").write_text(
            page_of(f"{title}: {one.suite.name}", _drawn(one.outcome), back=True), encoding="utf-8"
        )
    index = folder / "index.html"
    index.write_text(page_of(title, _index(validated)), encoding="utf-8")
    return index


def offline(html: str) -> str:
    """Take the content out of a page of Great Expectations, without references to other hosts.

    Raises ValueError if a page is not built like those of version 1.24.
    """
    found = _CONTENT.search(html)
    if found is None:
        raise ValueError("Great Expectations' page has no content")
    content = _TO_SUITE.sub(r"\1", _FOREIGN.sub("", found[0]))
    return _LINK_OUT.sub("", content)


def page_of(title: str, content: str, *, back: bool = False) -> str:
    """Frame content as a page of its own."""
    link = '<a href="index.html">All suites</a>' if back else ""
    frame = _frame().replace("{{title}}", escape(title)).replace("{{back}}", link)
    return frame.replace("{{content}}", content)


def _drawn(outcome: Any) -> str:
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    return offline(DefaultJinjaPageView().render(ValidationResultsPageRenderer().render(outcome)))


def _index(validated: Sequence[Judged]) -> str:
    lines = "".join(
        f'<tr><td><a href="{one.suite.name}.html">{one.suite.name}</a></td><td class="n">{one.rows:,}</td>'
        f'<td class="n">{len(one.results)}</td><td>{_verdict(one)}</td></tr>'
        for one in validated
    )
    heads = '<th>suite</th><th class="n">rows</th><th class="n">expectations</th><th>result</th>'
    return f'<table class="table"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'


def _verdict(one: Judged) -> str:
    failed = [result for result in one.results if not result.passed]
    if not failed:
        return '<span class="badge good">all hold</span>'
    names = ", ".join(escape(f"{result.name} ({result.severity.value})") for result in failed)
    return f'<span class="badge bad">{len(failed)} broken</span> {names}'


@cache
def _frame() -> str:
    return files(__package__).joinpath("data_docs.html").read_text(encoding="utf-8")


def reports_root(flow: FlowSettings) -> Path:
    """Return the folder of all reports, of every flow with the same setting."""
    return flow.gate.reports or platformdirs.user_data_path("twinlog") / "reports"


def reports_folder(flow: FlowSettings, kind: str) -> Path:
    """Return the folder of one kind of report (`validate`, `gate`) of a flow."""
    return reports_root(flow) / _plain(flow.name.replace("->", "__")) / kind


def new_report(flow: FlowSettings, kind: str, run_id: str, at_ms: int) -> Path:
    """Make the folder of a new report, named by time and run, and delete the oldest reports beyond the limit."""
    folder = reports_folder(flow, kind)
    moment = iso(at_ms, "milliseconds").removesuffix("+00:00").replace("-", "").replace(":", "")
    report = folder / f"{moment}Z-{_plain(run_id)[:60]}".rstrip("-")
    report.mkdir(parents=True, exist_ok=True)
    for old in sorted(path for path in folder.iterdir() if path.is_dir())[: -flow.gate.reports_kept]:
        shutil.rmtree(old, ignore_errors=True)
    return report


def _plain(name: str) -> str:
    """Make a name that any file system accepts."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)

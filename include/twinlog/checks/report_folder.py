"""The folder of reports: a subfolder per flow and kind, in it one per run; the oldest runs are deleted."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from pathlib import Path

import platformdirs

from twinlog.config.flow.settings import FlowSettings


def reports_folder(flow: FlowSettings, kind: str) -> Path:
    """Return the folder of one kind of report (`validate`, `gate`) of a flow."""
    base = flow.gate.reports or platformdirs.user_data_path("twinlog") / "reports"
    return base / _plain(flow.name.replace("->", "__")) / kind


def new_report(flow: FlowSettings, kind: str, run_id: str, at_ms: int) -> Path:
    """Make the folder of a new report, named by time and run, and delete the oldest reports beyond the limit."""
    folder = reports_folder(flow, kind)
    moment = dt.datetime.fromtimestamp(at_ms / 1000, dt.UTC)
    report = folder / f"{moment:%Y%m%dT%H%M%S}.{at_ms % 1000:03d}Z-{_plain(run_id)[:60]}".rstrip("-")
    report.mkdir(parents=True, exist_ok=True)
    for old in sorted(it for it in folder.iterdir() if it.is_dir())[: -flow.gate.reports_kept]:
        shutil.rmtree(old, ignore_errors=True)
    return report


def _plain(name: str) -> str:
    """Make a name that any file system accepts."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)

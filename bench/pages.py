"""Write a measurement to a JSON and a Markdown file in a folder."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--out`."""
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="folder of the results")


def write(name: str, rows: Sequence[Row], text: str, given: argparse.Namespace) -> None:
    """Print the table, and write `name`.json and `name`.md."""
    text = f"{machine()}\n\n{text}"
    print(f"\n{text}", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{name}.json").write_text(
        json.dumps({"machine": machine(), "rows": list(rows)}, indent=1) + "\n"
    )
    (given.out / f"{name}.md").write_text(text)


def machine() -> str:
    """Say when and on which machine this was measured."""
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"Measured {dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC on {os.cpu_count()} cores, {memory:.0f} GiB of memory,"
        f" {platform.system()} {platform.release()}, Python {platform.python_version()}; load average:"
        f" {os.getloadavg()[0]:.1f}."
    )

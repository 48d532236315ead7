"""Record `twinlog drill` as an animated picture, docs/images/drill.svg, from a real run on two clusters.

It plays docs/tutorial.md up to its drill: two clusters on this machine, the application, its file, a cycle.  Then the
drill is run, and every line appears in the picture when it appeared.  No script runs in the picture; who
asks for less motion sees all of it at once.

    JAVA_HOME=$(cat .venv/.java-home) .venv/bin/python docs/recording.py
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "drill.svg"
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
FILES = ("write.py", "read.py", "mm2.properties")
PORT = 19192
"""The first port in these files."""

SHOWN = "twinlog drill"
LINE, CHARACTER = 17, 7.25

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" xml:space="preserve" role="img"
  aria-label="{label}">
<style>
  text {{ font: 12px ui-monospace, Menlo, "Liberation Mono", monospace; white-space: pre; fill: #17202e; }}
  .typed {{ font-weight: 700; fill: #1a5fd0; }}
  @media (prefers-reduced-motion: no-preference) {{
    text {{ opacity: 0; animation: appear 1ms linear forwards; }}
    @keyframes appear {{ to {{ opacity: 1; }} }}
  }}
</style>
<rect width="100%" height="100%" rx="8" fill="#f6f7f9" stroke="#e2e6ec"/>
"""


def saved(name: str) -> str:
    """Return the program or file that the tutorial has one save by this name."""
    found = re.search(
        rf"this as `{re.escape(name)}`.*?^```\w+\n(.*?)^```", TUTORIAL, re.DOTALL | re.MULTILINE
    )
    assert found is not None, name
    return found[1]


def play(folder: Path, command: str) -> list[tuple[float, str]]:
    """Run a command; return each line of both its outputs, with the seconds after which it came."""
    here = {"XDG_DATA_HOME": str(folder), "TWINLOG_CONFIG": str(folder / FILES[-1])}
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    began = time.monotonic()
    with subprocess.Popen(
        command.split(),
        cwd=folder,
        env={**os.environ, **here, **path},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        lines = [
            (time.monotonic() - began, line.rstrip().replace(str(folder), "~")) for line in process.stdout
        ]
    assert process.returncode == 0, lines
    return lines


def recorded() -> list[tuple[float, str]]:
    """Play the tutorial, and return what is shown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in FILES:
            (folder / file).write_text(saved(file), encoding="utf-8")
        play(folder, f"twinlog machine kafka start --clusters A,B --folder kafka --first-port {PORT}")
        try:
            for command in ("python write.py", "python read.py", "twinlog run --once"):
                play(folder, command)
            return [(0.0, f"$ {SHOWN}"), *play(folder, SHOWN)]
        finally:
            play(folder, "twinlog machine kafka stop --folder kafka")


def picture(lines: Sequence[tuple[float, str]]) -> str:
    """Draw the lines, each at its time."""
    width, height = round(max(len(line) for _, line in lines) * CHARACTER) + 32, len(lines) * LINE + 24
    drawn = [
        f'<text class="{"typed" if line.startswith("$ ") else "told"}" x="16" y="{24 + number * LINE}"'
        f' style="animation-delay:{at:.2f}s">{html.escape(line, quote=False)}</text>'
        for number, (at, line) in enumerate(lines)
        if line
    ]
    return "\n".join([HEAD.format(width=width, height=height, label=SHOWN), *drawn, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(recorded()), encoding="utf-8")

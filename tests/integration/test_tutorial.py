"""docs/tutorial.md is followed as it is written, on two clusters of its own: each block, and what it promises.

Costs two to three minutes: Spark is started twice.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.lab.kafka.java import find_java

pytestmark = [pytest.mark.integration, pytest.mark.long]

PAGE = (Path(__file__).parents[2] / "docs/tutorial.md").read_text()
CREATES_THE_TOPIC = re.compile(r"^.*NewTopic\(.*\n", re.MULTILINE)
FIRST_PORT = "19392"
"""Instead of the page's: a reader's clusters may be up."""


def as_here(text: str) -> str:
    """Return a text of the page with other ports."""
    return text.replace("19192", FIRST_PORT).replace("19194", str(int(FIRST_PORT) + 2))


def blocks(title: str) -> list[str]:
    """Return the commands of a section, a block each."""
    section = re.search(rf"^## \d+\. {re.escape(title)}\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None, f"the tutorial has no section {title!r}"
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", section[1], re.DOTALL | re.MULTILINE)
    return [as_here(text) for language, text in fenced if not language]


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], tuple[int, str]]:
    """Run a block where the reader would, and return its exit code and all that it prints."""
    scripts = Path(sys.executable).parent
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "TWINLOG"))},
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "JAVA_HOME": str(Path(find_java().path).parents[1]),
        "TWINLOG_CONFIG": str(tmp_path / "mm2.properties"),
        "COLUMNS": "200",
    }

    def run(block: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-ec", block], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_it_works_as_it_is_written(shell: Callable[[str], tuple[int, str]], tmp_path: Path) -> None:
    """From two clusters to a passed drill; what stands in quotes on the page is printed."""
    programs = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for name, program in zip(("write.py", "read.py"), programs, strict=True):
        (tmp_path / name).write_text(as_here(program))
    (file,) = re.findall(r"^```properties\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "mm2.properties").write_text(as_here(file))

    def follow(title: str, *promised: str) -> None:
        for block in blocks(title):
            code, printed = shell("\n".join(it for it in block.splitlines() if not it.startswith("mkdir")))
            assert 0 == code, f"{block}{printed}"
            seen.append(printed)
        everything = "\n".join(seen)
        assert [] == [it for it in promised if it not in everything], everything
        seen.clear()

    seen: list[str] = []
    try:
        follow("Two clusters", "running", f"127.0.0.1:{FIRST_PORT}")
        follow("An application", "400 records read")
        follow("The file", "A.orders")
        follow("Copy", "A->B: done, 1,001 records", "active, 0 records behind")
        follow("Prove", "proved equal", "billing")
        follow("May we fail over?", "READY")

        (tmp_path / "write.py").write_text(CREATES_THE_TOPIC.sub("", (tmp_path / "write.py").read_text(), 1))
        code, printed = shell("python write.py && twinlog gate")
        assert (1, True) == (code, "lag-records" in printed), printed
        code, printed = shell("twinlog run --once && twinlog gate")
        assert (1, True) == (code, "audit-promised" in printed), printed
        assert 0 == shell("twinlog audit && twinlog gate")[0]
        follow("The drill", "passed: 1 group went on at the right record", "RTO", "RPO")
    finally:
        code, printed = shell(blocks("Clean up")[0].splitlines()[0])
    assert 0 == code, printed

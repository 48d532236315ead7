"""The site: every page has its place, the reference is the code's, and it is built from this tree alone."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from twinlog.config.flow.load import load

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def _pages(nav: object) -> list[str]:
    """Return the pages of the navigation, in its order."""
    match nav:
        case str():
            return [nav]
        case list():
            return [page for part in nav for page in _pages(part)]
        case dict():
            return [page for part in nav.values() for page in _pages(part)]
    return []


def test_every_page_is_in_the_navigation_once() -> None:
    """But decisions and the files that the bench writes, which other pages lead to."""
    found = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    wanted = {it for it in found if not re.match(r"decisions/|performance/", it)}
    pages = _pages(SITE["nav"])
    assert sorted(wanted) == sorted(pages)


def test_every_page_is_in_llms_txt() -> None:
    """Those of the navigation, each once, by its place in the site."""
    listed = re.findall(r"\]\(([\w/-]+)\.html\)", (DOCS / "llms.txt").read_text())
    assert sorted(f"{page}.md" for page in listed) == sorted(_pages(SITE["nav"]))


def test_every_decision_is_listed() -> None:
    """The list leads to each of them."""
    linked = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (DOCS / "decisions" / "index.md").read_text())
    assert sorted(path.name for path in (DOCS / "decisions").glob("0*.md")) == linked


def test_the_page_of_commands_is_that_of_the_code() -> None:
    """If it is not, `make reference` writes it."""
    assert runpy.run_path(str(DOCS / "command_pages.py"))["page"]() == (DOCS / "cli.md").read_text()


def test_images_have_words_and_exist() -> None:
    """A picture that cannot be seen is told."""
    for page in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for words, name in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text()):
            assert (bool(words), True) == (True, (page.parent / name).exists()), f"{page}: {name}"


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="mkdocs is not installed (extra docs)")
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """A lost link is an error; no page asks another host for a script, a style or a font."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert (0, "") == (built.returncode, built.stderr)
    pages = [*tmp_path.rglob("*.html")]
    asked = r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?https?://[^\">]*"
    assert [] == [it for page in pages for it in re.findall(asked, page.read_text())]
    assert (tmp_path / "tutorial.html") in pages


def test_what_the_tutorial_has_one_save_is_whole(tmp_path: Path) -> None:
    """Its programs compile, and its file is read without a warning."""
    page = (DOCS / "tutorial.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert ["write.py", "read.py"] == re.findall(r"this as `(\w+\.py)`", page)
    for program in programs:
        compile(program, "tutorial", "exec")
    (example,) = re.findall(r"^```properties\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    path = tmp_path / "mm2.properties"
    path.write_text(example)
    assert (2, ()) == (len(programs), load(path).warnings)

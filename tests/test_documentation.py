"""docs/errors.md and docs/operations.md name what the code has: no code, metric or gauge more or less."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from twinlog.copying.mend.tails import LOST_PROGRESS, LOST_TAIL
from twinlog.copying.result import TRANSIENT_CODES
from twinlog.lane.fence import lost_progress
from twinlog.monitoring.metrics import METRICS
from twinlog.topics.discovery import BLOCKING, ProblemCode

ROOT = Path(__file__).resolve().parents[1]
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
METRICS_PAGE = ROOT / "docs" / "metrics.md"
CLI_PAGE = ROOT / "docs" / "cli.md"
PACKAGE = ROOT / "include" / "twinlog"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def _section(page: str, title: str) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _rows(text: str) -> list[str]:
    """What stands in backquotes in the first column of tables."""
    first = re.findall(r"^\|([^|]+)\|", text, re.MULTILINE)
    return [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]


def _codes_of_trouble() -> set[str]:
    """The codes that lane/copy/range_errors.py gives to ranges: every word that it quotes."""
    text = (PACKAGE / "lane" / "copy" / "range_errors.py").read_text(encoding="utf-8")
    return set(re.findall(r'(?<!f)"([a-z]+(?:-[a-z]+)*)"', text))


def test_every_code_of_the_page_exists_in_the_code() -> None:
    """A code in a table is a string somewhere in the package."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert [] == [name for name in _rows(ERRORS) if f'"{name}"' not in code]


def _codes_raised() -> set[str]:
    """Codes that calls give as a word (`code="port"`), and those that classes of errors have."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                    found.add(code)
                case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                    found.add(code)
    return found


def test_every_code_that_is_raised_is_on_a_page() -> None:
    """On the page of errors, or, of metadata, on the page that it leads to."""
    pages = ERRORS + (ROOT / "docs" / "metadata.md").read_text(encoding="utf-8")
    assert [] == sorted(code for code in _codes_raised() if f"`{code}`" not in pages)


def test_every_blocking_problem_has_its_row() -> None:
    """What stops a topic is in the first table, and nothing else."""
    assert sorted(it.value for it in BLOCKING) == sorted(_rows(_section(ERRORS, "A topic stops")))


def test_problems_that_stop_nothing_are_named() -> None:
    """The others stand below that table."""
    section = _section(ERRORS, "A topic stops")
    assert [] == [it.value for it in set(ProblemCode) - BLOCKING if f"`{it.value}`" not in section]


def test_what_ends_a_range_has_its_row() -> None:
    """Codes of lanes, of the plan, and those that pass by themselves."""
    stops = {
        "gap",
        "truncation",
        "uncompared",
        lost_progress.LOST_MARKER,
        LOST_TAIL,
        LOST_PROGRESS,
        *TRANSIENT_CODES,
    }
    assert set() == (stops | _codes_of_trouble()) - set(_rows(ERRORS))


def test_the_codes_of_trouble_are_found() -> None:
    """The search above sees what lane/copy/range_errors.py says."""
    assert {"gap", "truncation", "corrupt-batch", "topic-deleted", "copy-recreated"} <= _codes_of_trouble()


def test_what_passes_by_itself_has_a_table_of_its_own() -> None:
    """The last table of partitions is the code's own list."""
    passing = _section(ERRORS, "A partition stops").partition("These go away by themselves")[2]
    assert sorted(TRANSIENT_CODES) == sorted(_rows(passing))


def test_the_tables_of_metrics_are_those_of_the_code() -> None:
    """If they are not, `make reference` writes them; each metric stands in one of them."""
    page, tool = (
        METRICS_PAGE.read_text(encoding="utf-8"),
        runpy.run_path(str(ROOT / "docs" / "metrics_tables.py")),
    )
    assert page == tool["written"](page)
    rows = re.findall(r"^\| `(twinlog_\w+)` \| `flow`", page, re.MULTILINE)
    assert sorted(it.exported for it in METRICS.values()) == sorted(rows)


SHAPES = runpy.run_path(str(ROOT / "docs" / "shape_tables.py"))


@pytest.mark.parametrize("name", ["documents", "ledger"])
def test_the_schemas_are_sound_and_those_of_the_code(name: str) -> None:
    """If they are not, `make reference` writes them."""
    schema = SHAPES["schemas"]()[name]
    Draft202012Validator.check_schema(schema)
    text = (ROOT / "docs" / "json" / f"{name}.schema.json").read_text(encoding="utf-8")
    assert text == SHAPES["text_of"](schema)


@pytest.mark.parametrize("page", ["json.md", "ledger.md"])
def test_the_lists_of_documents_and_records_are_those_of_the_code(page: str) -> None:
    """If they are not, `make reference` writes them."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == SHAPES["written"](text)


def test_every_command_that_writes_json_has_a_schema() -> None:
    """Each of cli.md."""
    commands = re.split(r"^## twinlog ", CLI_PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    described = {command.partition(" --")[0] for answer in SHAPES["ANSWERS"] for command in answer.commands}
    assert {it.partition("\n")[0] for it in commands} == {
        re.sub(r"^(drill|machine spark) .*", r"\1", it) for it in described
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_metrics_that_are_declared(page: Path) -> None:
    """Also those to alarm on, and the gauges of Airflow."""
    text = page.read_text(encoding="utf-8")
    known = {it.exported for it in METRICS.values()}
    named = {it for it in re.findall(r"`[^`]*`", text) for it in re.findall(r"\btwinlog_[a-z]\w+", it)}
    gauges = {it.partition(".")[0] for it in re.findall(r"`twinlog\.A__B\.([\w.]+)`", text)}
    assert set() == (named - known if page == METRICS_PAGE else set())
    assert set() == gauges - METRICS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_docs_leads_to_a_page_and_a_heading(page: Path) -> None:
    """Links between pages, with their anchors as GitHub makes them."""
    lost = []
    for link in re.findall(r"\]\(([^)\s:]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            lost.append(link)
    assert [] == lost


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

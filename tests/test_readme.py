"""README, CONTRIBUTING and docs name only what there is."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from twinlog.cli.main import app
from twinlog.config.flow.load import load

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
DOCS = tuple(sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))


def _text(page: str) -> str:
    """A page; of the changelog what is not released yet: a released version had commands that left since."""
    return (ROOT / page).read_text(encoding="utf-8").split("\n## [0.", 1)[0]


def _commands(text: str) -> list[list[str]]:
    """Every `twinlog ...` line of a code block or a code span, as words, without its comment."""
    text = re.sub(r"\\\n\s*", "", text)  # a line that goes on is one command
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks += re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE)  # indented blocks, as in docs/topics.md
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    found = (re.match(r"(?:\.venv/bin/)?twinlog +(.+)", line.strip()) for line in lines)
    return [shlex.split(match.group(1), comments=True) for match in found if match]


COMMANDS = sorted({tuple(words) for page in PAGES + DOCS for words in _commands(_text(page))})


def _options(command: Any) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts} | {"--help"}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_of_the_pages_exists(words: tuple[str, ...]) -> None:
    """What a reader copies is a command with options that it has."""
    app_itself: Any = typer.main.get_command(app)
    command = app_itself
    known = _options(command)
    for word in words:
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
            known |= _options(command)
    # Prose may name a group (`twinlog metadata`), or all commands (`twinlog --help`).
    group = len(words) == 1 and (command is not app_itself or words == ("--help",))
    assert group or not hasattr(command, "commands"), f"{words[0]} is no command"
    assert [word for word in words if word.startswith("--") and word not in known] == []


def test_the_pages_name_many_commands() -> None:
    """The search above finds what it is to find."""
    assert {"check", "machine", "migrate", "plan", "run", "status", "topics"} <= {
        words[0] for words in COMMANDS
    }


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_exists(page: str) -> None:
    """`make demo` and its like are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", _text(page), re.MULTILINE))
    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    """Links to files of this repository point at files."""
    links = re.findall(r"\]\(([^)#:]+)\)", _text(page))
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("room", ["include", "dags", "jobs", "plugins", "bench", "tests"])
def test_every_page_named_in_the_code_exists(room: str) -> None:
    """By its path, or by its name below docs; results.md is what the bench writes."""
    code = {path: path.read_text(encoding="utf-8") for path in (ROOT / room).rglob("*.py")}
    named = {
        (str(path), it)
        for path, text in code.items()
        for it in re.findall(r"(?<![\w/.-])[\w/-]+\.md\b", text)
    }
    pages = {*PAGES, *DOCS, "results.md", *(page.removeprefix("docs/") for page in DOCS)}
    assert {(path, page) for path, page in named if page not in pages} == set()


def test_the_example_file_is_read_without_a_warning(tmp_path: Path) -> None:
    """The properties shown are all there needs to be."""
    (example,) = re.findall(r"^```properties\n(.*?)^```", _text("README.md"), re.DOTALL | re.MULTILINE)
    path = tmp_path / "mm2.properties"
    path.write_text(example, encoding="utf-8")
    configuration = load(path)
    assert [flow.name for flow in configuration.enabled_flows] == ["A->B"]
    assert configuration.warnings == ()


PROMISES: dict[str, dict[str, list[str]]] = tomllib.loads(_text("tests/promises.toml"))


@pytest.mark.parametrize("title", PROMISES)
def test_what_is_promised_stands_in_the_readme_and_is_tested(title: str) -> None:
    """A title of tests/promises.toml is README's text, and its tests exist."""
    assert title in _text("README.md")
    for test in PROMISES[title]["tests"]:
        file, *names = test.partition("[")[0].split("::")
        text = _text(f"tests/{file}")
        assert [] == [name for name in names if not re.search(rf"^\s*(def|class) {name}\b", text, re.M)], test

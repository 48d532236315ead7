"""Tables for people, one JSON document for programs."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from twinlog.cli.render import OUTPUT, Diff, Grid, Lines, Output, say, show, text_of


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    """Let each test begin as a line without --output does."""
    before = OUTPUT.set(Output.TABLE)
    yield
    OUTPUT.reset(before)


@dataclass(frozen=True)
class Result:
    topic: str
    records: int


@pytest.fixture(autouse=True)
def documents_are_those_of_the_schema() -> None:
    """Here they are made up."""


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "no"),
        (1234567, "1,234,567"),
        (0.25, "0.2"),
        ("a", "a"),
        (0, "0"),
        ("all " * 99 + "g" * 255, "all " * 99 + "g" * 250 + " ... and 5 characters more (--output json)"),
    ],
)
def test_cells_are_written_for_people(cell: object, text: str) -> None:
    """Numbers get separators, nothing gets a dash."""
    assert text == text_of(cell)  # type: ignore[arg-type]


def test_json_is_one_document_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """stdout parses as a whole."""
    OUTPUT.set(Output.JSON)
    show(Result("größe", 3), [Grid("t", ("a",), [("x",)])])
    captured = capsys.readouterr()
    assert (json.loads(captured.out), captured.err) == ({"topic": "größe", "records": 3}, "")


def test_brackets_in_names_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """A regex such as [a-z]+ is shown as it is."""
    show(None, [Grid("[bold]t", ("pattern",), [("[a-z]+[/red]",)])])
    out = capsys.readouterr().out
    assert ("[a-z]+[/red]" in out, "[bold]t" in out) == (True, True)


FORGED = "pay\x1b[2J\nready \x9b31m\u202e"


@pytest.mark.parametrize(
    "shown",
    [
        Grid(FORGED, ("group",), [(FORGED,)]),
        Lines(FORGED, [FORGED]),
        Diff([("green", FORGED)]),
    ],
    ids=["grid", "lines", "diff"],
)
def test_a_name_does_nothing_to_a_terminal(shown: object, capsys: pytest.CaptureFixture[str]) -> None:
    """A group may have any name: it clears no screen, and is no line by itself."""
    show(None, [shown])  # type: ignore[list-item]
    out = capsys.readouterr().out
    assert (r"pay\x1b[2J\x0aready \x9b31m\u202e" in out, out.replace("\n", "").isprintable()) == (True, True)


def test_a_name_in_json_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the same name as ever."""
    OUTPUT.set(Output.JSON)
    show(Result(FORGED, 1))
    out = capsys.readouterr().out
    assert (json.loads(out)["topic"], out.replace("\n", "").isprintable()) == (FORGED, True)


def test_a_name_in_a_message_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists of mistakes keep their lines."""
    say("two mistakes:", "  pay\x1b[2J\nerror: all is well")
    assert "two mistakes:\n  pay\\x1b[2J\\x0aerror: all is well\n" == capsys.readouterr().err


def test_an_empty_grid_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """No rows is an answer, not a blank."""
    show(None, [Grid("gaps", ("topic", "cause"), [], empty="no gap")])
    assert "no gap" in capsys.readouterr().out


def test_a_column_of_nothing_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A column that one row fills is."""
    show(
        Result("x", 1),
        [Grid("t", ("topic", "why", "since"), [("a", None, None), ("b", "", "noon")])],
    )
    out = capsys.readouterr().out
    assert (True, False, True) == ("topic" in out, "why" in out, "since" in out)


def test_long_names_are_not_folded_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """`twinlog status | grep` finds a long topic name on one line."""
    name = "team.product." * 8 + "orders"
    show(None, [Grid("topics", ("topic", "lag"), [(name, 1)])])
    assert any(name in line for line in capsys.readouterr().out.splitlines())


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`twinlog ... | head -1` ends quietly, whatever is still to be written."""
    program = (
        "from twinlog.cli.render import OUTPUT, Output, show\nOUTPUT.set(Output.JSON)\n"
        "show(list(range(200_000)))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        complaint = child.stderr.read()
        assert (child.wait(timeout=20), complaint) == (0, b"")

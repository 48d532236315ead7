"""The command line as a whole: exit codes, one line on stderr, one document on stdout."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from twinlog.cli.main import OLDER, app, main

FILE = """\
clusters = A, B
A.bootstrap.servers = localhost:1
B.bootstrap.servers = localhost:2
A->B.enabled = true
A->B.topics = .*
"""
COMMANDS_WITH_A_FILE = ("check", "plan", "run", "status", "plan --explain")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def _line(command: str, *options: str) -> list[str]:
    return [*command.split(), *(["--once"] if command == "run" else []), *options]


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, by itself."""
    code, out, err = _run(capsys, "--version")
    assert (code, out.split()[0], err) == (0, "twinlog", "")


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    """As on stderr; no command fails for that."""
    file = tmp_path / "mm2.properties"
    lines = ["clusters = A, B", "A->B.enabled = true", r"A->B.groups = gr\u00fcn"]
    servers = [f"{alias}.bootstrap.servers = localhost:1" for alias in "AB"]
    file.write_text("\n".join([*lines, *servers]), encoding="ascii")
    answer = subprocess.run(
        [sys.executable, "-m", "twinlog", "plan", "--explain", "--topics", "orders", "--config", str(file)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (0, True) == (answer.returncode, "gr\\xfcn" in answer.stdout), answer.stderr


def test_the_package_is_the_command() -> None:
    """Where the script is not on the path, `python -m twinlog` does the same."""
    answer = subprocess.run(
        [sys.executable, "-m", "twinlog", "chekc"], capture_output=True, text=True, check=False
    )
    assert (2, True) == (answer.returncode, "No such command 'chekc'" in answer.stderr)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("chekc",), "error: No such command 'chekc'. Did you mean 'check'?; see twinlog --help"),
        (("check", "--flwo", "A->B"), "see twinlog check --help"),
        (("check", "--config", "f", "--output", "xml"), "--output: 'xml' is neither table nor json"),
        (("check", "--config"), "Option '--config' requires an argument"),
        (("check", "now"), "Got unexpected extra argument(s) (now); see twinlog check --help"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint points to the help of the command."""
    code, out, err = _run(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err


@pytest.mark.parametrize("command", COMMANDS_WITH_A_FILE)
def test_a_missing_file_is_exit_2(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that reads a file says the same."""
    code, out, err = _run(capsys, *_line(command, "--config", str(tmp_path / "nope.properties")))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tmp_path / 'nope.properties'} does not exist; ")


@pytest.mark.parametrize("command", COMMANDS_WITH_A_FILE)
def test_a_folder_is_no_file(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is there but cannot be read as a file."""
    code, _, err = _run(capsys, *_line(command, "--config", str(tmp_path)))
    assert (code, err.count("\n"), "is a folder" in err) == (2, 1, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_exit_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The operating system's refusal becomes one line."""
    file.chmod(0)
    code, _, err = _run(capsys, "check", "--config", str(file))
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("A->B.topics = [a-z", "A->B.topics: the regular expression '[a-z'"),
        ("A->B.topics = a(?<=b+)", "A->B.topics"),
        ("B.bootstrap.servers =", "B.bootstrap.servers"),
        ("A->B.offset.lag.max = many", "6: A->B.offset.lag.max: 'many' is not a whole number"),
    ],
)
def test_a_value_that_cannot_be_used_names_its_line(
    change: str, said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key and the line number lead to the mistake."""
    file.write_text(FILE + change + "\n")
    code, out, err = _run(capsys, "check", "--config", str(file))
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("command", COMMANDS_WITH_A_FILE)
def test_an_unknown_flow_names_the_known_ones(
    command: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A typo in --flow or an alias that does not exist."""
    code, out, err = _run(capsys, *_line(command, "--config", str(file), "--flow", "A->X"))
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"error: {file} has no flow A->X; its (enabled )?flows are: A->B.*\n", err)


def test_under_json_an_error_is_a_document_too(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """stdout parses as JSON whatever happens, and carries the error's stable code."""
    code, out, err = _run(capsys, "plan", "--config", str(file), "--flow", "A->X", "--output", "json")
    assert (code, json.loads(out)["error"]["code"], err.count("\n")) == (2, "usage", 1)


def test_a_warning_does_not_stop_unless_strict(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What MM2 would silently drop is a warning on stderr, and an error under --strict."""
    file.write_text(FILE + "sync.topic.configs.enabl = true\n")
    assert _run(capsys, "check", "--config", str(file), "--flow", "X->Y")[2].startswith("warning: ")
    code, _, err = _run(capsys, "check", "--config", str(file), "--strict")
    assert (code, "sync.topic.configs.enabl" in err, err.startswith("error: ")) == (2, True, True)


def test_debug_shows_where_an_error_came_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--debug may stand anywhere, and changes nothing else."""
    code, _, err = _run(capsys, "check", "--config", str(tmp_path / "x"), "--debug")
    assert (code, "Traceback" in err, "does not exist" in err) == (2, True, True)


@pytest.mark.parametrize("older", OLDER)
def test_an_older_name_is_taken_with_one_line(older: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what it is called now, and does that: here, show the help of it."""
    code, _, err = _run(capsys, *older.split(), "--help")
    line = f"`twinlog {older}` is `twinlog {OLDER[older]}` now; the older name leaves with the next release\n"
    assert (0, line) == (code, err)


def test_examples_are_lines_of_the_command_that_they_stand_at() -> None:
    """With its options; and what comes next is a command."""
    known = dict(_leaves(typer.main.get_command(app), ""))
    for name, shown in known.items():
        example, following = re.findall(r"`twinlog ([^`]+)`", shown.help.rpartition("Example")[2])
        assert example.startswith(f"{name} ")
        for line in (example, following):
            command = known[max((it for it in known if f"{line} ".startswith(f"{it} ")), key=len)]
            options = {option for it in command.params for option in it.opts}
            assert [] == [it for it in shlex.split(line) if it.startswith("--") and it not in options], line


def _leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, below in command.commands.items():
        yield from _leaves(below, f"{name} {word}".strip())


def test_bare_failback_does_not_go_home_without_a_person(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script of 0.2 that only saved is refused, and told so as a waiting failover is; --save is what it did."""
    code, out, err = _run(capsys, "failback", "--config", str(file))
    assert (1, "", 1, True) == (code, out, err.count("\n"), "--save only counts" in err)


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback, and the exit code shells expect."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("twinlog.cli.machine.doctor.inspect_machine", interrupted)
    assert _run(capsys, "check", "--machine") == (130, "", "error: interrupted\n")


def test_a_mistake_of_ours_asks_to_be_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 70 is none of the documented answers."""
    monkeypatch.setattr("twinlog.cli.machine.doctor.inspect_machine", lambda *_: 1 // 0)
    code, out, err = _run(capsys, "check", "--machine")
    assert (code, out, "Traceback" in err) == (70, "", False)
    assert err.startswith("error: a mistake in twinlog: ZeroDivisionError")


def test_help_imports_little_but_what_it_is_written_with() -> None:
    """Neither Airflow, Spark, Great Expectations nor a Kafka client is imported before it is needed."""
    program = (
        "import sys\n"
        "import typer.rich_utils\n"
        "written_with = set(sys.modules)\n"
        "from twinlog.cli.main import OLDER, main\n"
        "main(['--help'])\n"
        "others = {it.partition('.')[0] for it in set(sys.modules) - written_with}\n"
        "print(*sorted(others - set(sys.stdlib_module_names)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"twinlog", "regex", "javaproperties"} == set(done.stderr.split()) - {"rich", "typer"}


@pytest.mark.integration
@pytest.mark.parametrize("command", ["check", "plan", "run", "status"])
def test_a_cluster_that_cannot_be_reached_is_exit_3(
    command: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within 30 seconds, by name, with the flow's document on stdout."""
    started = time.monotonic()
    code, out, err = _run(capsys, *_line(command, "--config", str(file), "--output", "json"))
    assert time.monotonic() - started < 30
    assert (code, json.loads(out)["flows"][0]["flow"]) == (3, "A->B")
    assert re.search(r"^A->B: error: cluster [AB] cannot be reached", err, re.MULTILINE)

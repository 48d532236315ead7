"""The examples for systemd and Kubernetes say what those parsers and twinlog's command line take."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from twinlog.cli.main import app
from twinlog.shipped import folder

UNITS = sorted((folder("config") / "systemd").iterdir())
RUNS = [it for it in UNITS if it.suffix == ".service"]
DEPLOYMENT = folder("config") / "kubernetes" / "deployment.yaml"


def unknown(words: Sequence[str]) -> list[str]:
    """Return the words of a command line after `twinlog` that its parser does not know."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):
        return rest
    known = {name for it in command.params for name in it.opts}
    return [word for word in rest if word.startswith("-") and word not in known]


def unit(path: Path) -> ConfigParser:
    """Return a unit's sections, with the keys as they are written."""
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


def test_the_search_for_unknown_words_finds_one() -> None:
    """Otherwise the tests below could not fail."""
    assert (["--sometimes"], ["walk"]) == (unknown(["run", "--sometimes"]), unknown(["walk"]))


@pytest.mark.parametrize("path", RUNS, ids=lambda it: it.name)
def test_a_service_starts_a_command_that_there_is(path: Path) -> None:
    """With options that it has, as a user of its own."""
    service = unit(path)["Service"]
    for key in ("ExecStart", "ExecStop"):
        if key in service:
            program, *words = shlex.split(service[key])
            assert ("twinlog", []) == (Path(program).name, unknown(words))
    assert "twinlog" == service["User"]


@pytest.mark.parametrize("path", UNITS, ids=lambda it: it.name)
def test_systemd_takes_a_unit(path: Path, tmp_path: Path) -> None:
    """Every section and key; programs and users of this machine stand in for those that are not there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    for other in UNITS:
        text = re.sub(r"^(Exec\w+)=\S+", r"\1=/bin/true", other.read_text(), flags=re.MULTILINE)
        (tmp_path / other.name).write_text(re.sub(r"^User=.*", "User=root", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / path.name)],
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [] == [line for line in done.stderr.splitlines() if str(tmp_path) in line]


def test_the_deployment_holds_together() -> None:
    """Its selector finds its pods, its mounts have volumes, and its command is one of twinlog's."""
    document = yaml.safe_load(DEPLOYMENT.read_text())
    spec = document["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert ("apps/v1", "Deployment") == (document["apiVersion"], document["kind"])
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert {it["name"] for it in pod["volumes"]} == {it["name"] for it in container["volumeMounts"]}
    assert (["twinlog"], []) == (container["command"], unknown(container["args"]))
    assert spec["replicas"] > 1

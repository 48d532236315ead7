"""The ways in: Makefile and .ci."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest


def fake_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return home


def test_make_help_lists_every_target_of_the_readme(repository):
    """`make help` says a line about each way in."""
    answer = subprocess.run(["make", "help"], cwd=repository, capture_output=True, text=True, check=True)
    targets = set(re.findall(r"^([a-z-]+) +\S", answer.stdout, re.MULTILINE))
    assert {"setup", "demo", "test", "test-all", "test-unit", "lint", "bench", "clean"} <= targets


def test_ci_runs_make_test(repository):
    """CI says so, and runs `make test`, the rest, the bare core and the versions of the day."""
    script = repository / ".ci" / "run"
    assert os.access(script, os.X_OK)
    said = ["export CI=true", "make test", "make test-rest", "exec .venv/bin/python .ci/cell"]
    assert said == script.read_text().splitlines()[-4:]


def test_the_recipes_stop_at_the_first_failure(repository):
    """No recipe hides an exit code: none is prefixed with a dash or followed by `|| true`."""
    recipes = [line for line in (repository / "Makefile").read_text().splitlines() if line.startswith("\t")]
    assert [] == [line for line in recipes if line.startswith("\t-") or "|| true" in line]


def test_java_home_is_taken_when_it_will_do(repository, tmp_path):
    """The Java that JAVA_HOME names is used as it is."""
    home = fake_java(tmp_path / "jdk", "21.0.2")
    environment = {**os.environ, "JAVA_HOME": str(home)}
    answer = subprocess.run(
        [repository / ".ci/jdk"], env=environment, capture_output=True, text=True, check=True
    )
    assert str(home) == answer.stdout.strip()


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_412", "18.0.2", "24.0.1", "25.0.1"])
def test_a_java_that_will_not_do_is_passed_over(repository, tmp_path, version):
    """Too old and too new a Java are not taken, whoever named them."""
    home = fake_java(tmp_path / "jdk", version)
    good = fake_java(tmp_path / "good", "17.0.9")
    path = f"{good / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "JAVA_HOME": str(home), "PATH": path}
    answer = subprocess.run(
        [repository / ".ci/jdk"], env=environment, capture_output=True, text=True, check=True
    )
    assert str(good) == answer.stdout.strip()


def test_no_python_is_one_line_saying_what_to_install(repository, tmp_path):
    """Where no Python fits, the script says which to install and fails."""
    bash = shutil.which("bash")
    environment = {"PATH": str(tmp_path)}
    command = [bash, repository / ".ci/python"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (2, "", 1) == (answer.returncode, answer.stdout, len(answer.stderr.splitlines()))

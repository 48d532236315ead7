"""Finding Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.errors import TerminalError
from twinlog.lab.kafka import java
from twinlog.lab.kafka.java import Java, find_java, parse_version


def fake_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """No JAVA_HOME, nothing on PATH, nothing installed."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr(java, "_INSTALL_FOLDERS", (tmp_path / "jvm",))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("bash: java: command not found", 0),
    ],
)
def test_versions_are_read_as_java_prints_them(text, version):
    """The feature release is found in old and new spellings, 0 where there is none."""
    assert version == parse_version(text)


def test_java_home_wins_over_path(bare_machine, monkeypatch):
    """JAVA_HOME is taken although another Java is on PATH."""
    chosen = fake_java(bare_machine / "chosen", "21.0.2")
    fake_java(bare_machine / "other", "17.0.1")
    monkeypatch.setenv("PATH", str(bare_machine / "other" / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "chosen"))
    assert Java(chosen, 21) == find_java()


@pytest.mark.parametrize("version", ["11.0.2", "nonsense"])
def test_a_java_home_that_will_not_do_is_named(bare_machine, monkeypatch, version):
    """An old or broken JAVA_HOME is an error that names it, not a reason to look elsewhere."""
    fake_java(bare_machine / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "old"))
    with pytest.raises(TerminalError, match=str(bare_machine / "old")):
        find_java()


def test_an_old_java_on_path_does_not_hide_a_good_one(bare_machine, monkeypatch):
    """Java 11 on PATH is passed over for the 17 in the usual folder."""
    fake_java(bare_machine / "old", "11.0.2")
    good = fake_java(bare_machine / "jvm" / "java-17", "17.0.9")
    monkeypatch.setenv("PATH", str(bare_machine / "old" / "bin"))
    assert Java(good, 17) == find_java()


def test_no_java_is_one_line_saying_what_to_install(bare_machine):
    """Without Java the error is one line with the package to install."""
    with pytest.raises(TerminalError) as missing:
        find_java()
    assert ("java", 1) == (missing.value.code, len(str(missing.value).splitlines()))
    assert "openjdk-17-jre-headless" in missing.value.hint

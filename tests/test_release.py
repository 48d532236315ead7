"""A release has one version, and what is built from it says which commit it is."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import twinlog
from twinlog import shipped
from twinlog.cli.main import main


def test_the_version_is_the_same_everywhere(repository: Path) -> None:
    """In the package, in what is built, in the images, and the newest one of the changelog."""
    images = ("docker-compose.yaml", "include/config/helm/Chart.yaml")
    changelog = (repository / "CHANGELOG.md").read_text()
    assert {place: {twinlog.__version__} for place in ("pyproject.toml", *images, "CHANGELOG.md")} == {
        "pyproject.toml": {tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"]},
        **{
            it: set(re.findall(r"(?:image: twinlog:|ersion: )(\d\S+)", (repository / it).read_text()))
            for it in images
        },
        "CHANGELOG.md": set(re.findall(r"^## \[(\d[^\]]*)\]", changelog, flags=re.M)[:1]),
    }


@pytest.mark.parametrize("commit", ["", "0123456789ab"])
def test_the_version_names_the_commit(
    commit: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If it is known."""
    monkeypatch.setattr("twinlog.cli.main.commit", lambda: commit)
    assert 0 == main(["--version"])
    said = f"twinlog {twinlog.__version__}" + (f" (commit {commit})" if commit else "")
    assert f"{said}\n" == capsys.readouterr().out


def test_a_wheel_from_an_sdist_knows_its_commit(repository: Path, tmp_path: Path) -> None:
    """The sdist carries it, as whoever builds from it has no git."""
    build(repository, "sdist", tmp_path)
    [sdist] = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    build(unpacked, "wheel", tmp_path)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert shipped.commit() == archive.read("twinlog/_shipped/COMMIT").decode()


def test_completion_is_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By the shell's own question for words that begin with `fail`."""
    monkeypatch.setenv("_TWINLOG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "twinlog fail")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit):
        main([])
    assert ["failover", "failback"] == capsys.readouterr().out.split()


def build(root: Path, target: str, place: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(place)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)

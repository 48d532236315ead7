"""A release has one version, and what is built from it says which commit it is."""

from __future__ import annotations

import json
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


def test_the_bill_says_who_requires_whom(repository: Path) -> None:
    """By what uv says behind each requirement; without hashes there is no bill."""
    requirements = (
        "typer==0.19 \\\n    --hash=sha256:aa\n    # via\n    #   -c requirements.lock\n"
        "    #   twinlog (pyproject.toml)\n"
        "rich==13.7 \\\n    --hash=sha256:bb\n    # via typer\n"
    )
    hashes = {"externalReferences": [{"hashes": []}]}
    for known in (hashes, {}):
        names = {"bom-ref": "L1", "name": "typer", **hashes}, {"bom-ref": "L2", "name": "rich", **known}
        made = {"metadata": {"component": {"bom-ref": "root", "name": "twinlog"}}, "components": names}
        done = subprocess.run(
            [sys.executable, ".ci/bill", sys.executable, "-c", f"print({json.dumps(json.dumps(made))})"],
            cwd=repository,
            input=requirements,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (0 if known else 1) == done.returncode, done.stderr
        if known:
            expected = {"root": ["L1"], "L1": ["L2"], "L2": []}
            found = json.loads(done.stdout)["dependencies"]
            assert expected == {it["ref"]: it["dependsOn"] for it in found}


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

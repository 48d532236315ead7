"""`twinlog machine airflow` brings the Dags and the plugin that this version was shipped with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twinlog.cli.main import main
from twinlog.shipped import folder


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Airflow's folders of Dags and of plugins, both empty."""
    dags, plugins = tmp_path / "dags", tmp_path / "plugins"
    dags.mkdir()
    plugins.mkdir()
    return dags, plugins


def install(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Run the command; return its exit code and the states of the files."""
    dags, plugins = folders
    code = main(["machine", "airflow", "--dags", str(dags), "--plugins", str(plugins), "--output", "json"])
    out = capsys.readouterr().out
    return code, [it["state"] for it in json.loads(out)["files"]] if code == 0 else []


def test_every_dag_and_the_plugin_arrive(folders, capsys) -> None:
    """As they are shipped, below a line that says whose they are; a second time there is nothing to do."""
    shipped = [*folder("dags").glob("*.py"), *folder("plugins").glob("*.py")]
    assert (0, ["new"] * len(shipped)) == install(folders, capsys)
    written = [*folders[0].iterdir(), *folders[1].iterdir()]
    assert {it.name for it in shipped} == {it.name for it in written}
    for it in shipped:
        place = folders[0] if it.parent.name == "dags" else folders[1]
        first, _, rest = (place / it.name).read_text().partition("\n")
        assert first.startswith("# Installed by twinlog ")
        assert it.read_text() == rest
    assert (0, ["same"] * len(shipped)) == install(folders, capsys)


def test_those_of_another_version_are_renewed(folders, capsys) -> None:
    """They were twinlog's."""
    old, gone, mine = (folders[0] / f"{name}.py" for name in ("twinlog_dags", "replicate", "mine"))
    for it in (old, gone):
        it.write_text("# Installed by twinlog 0.0.1: `twinlog machine airflow` renews it.\nold\n")
    mine.write_text("# mine\n")
    code, states = install(folders, capsys)
    assert (0, 1, 1) == (code, states.count("renewed"), states.count("removed"))
    assert "old\n" not in old.read_text()
    assert (False, "# mine\n") == (gone.exists(), mine.read_text())


def test_anothers_file_stays_and_nothing_is_written(folders, capsys) -> None:
    """A Dag folder is many people's."""
    mine = folders[1] / "twinlog_plugin.py"
    mine.write_text("# my own\n")
    assert 2 == install(folders, capsys)[0]
    assert ("# my own\n", []) == (mine.read_text(), [*folders[0].iterdir()])


def test_a_folder_that_is_not_there_is_not_made(folders, capsys) -> None:
    """It would be a typing error, and Airflow would look elsewhere."""
    assert 2 == install((folders[0] / "no", folders[1]), capsys)[0]
    assert [] == [*folders[1].iterdir()]

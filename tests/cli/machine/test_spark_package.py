"""`twinlog spark package` says what it wrote, and by which settings Spark uses it."""

from __future__ import annotations

import json

import pytest

from twinlog.cli.main import main
from twinlog.spark.archive import make
from twinlog.spark.archive.manifest import read
from twinlog.spark.archive.use import settings_of


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Archives of one package: all of them take half a minute."""
    monkeypatch.setattr(make, "TASKS_NEED", ("tenacity",))


def test_the_archive_is_described(tmp_path, capsys):
    """As JSON: what its manifest says, and the lines for spark-defaults.conf."""
    file = tmp_path / "twinlog.tar.gz"
    code = main(["spark", "package", "--out", str(file), "--output", "json"])
    told = json.loads(capsys.readouterr().out)
    it = read(file)
    assert (0, it.build, it.python, it.packages) == (code, told["build"], told["python"], told["packages"])
    assert (str(file), file.stat().st_size, settings_of(str(file))) == (
        told["archive"],
        told["bytes"],
        told["conf"],
    )


def test_a_package_that_is_not_here_is_wrong_usage(tmp_path, capsys):
    """Exit code 2, one line, and no file."""
    code = main(["spark", "package", "--out", str(tmp_path / "a.tar.gz"), "--with", "no-such-package"])
    assert 2 == code
    assert "--with: no-such-package is not installed here" in capsys.readouterr().err
    assert [] == list(tmp_path.iterdir())

"""Imports point one way (docs/architecture.md).  Cost: about 2 s."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest
from importlinter.cli import lint_imports


def test_import_contracts_hold(repository, monkeypatch, capsys):
    """All contracts of pyproject.toml are kept."""
    monkeypatch.chdir(repository)
    code = lint_imports(no_cache=True)
    assert 0 == code, capsys.readouterr().out


def test_a_broken_contract_is_noticed(tmp_path, monkeypatch, capsys):
    """The same check says no to an import that goes up."""
    (tmp_path / "upside").mkdir()
    for module, text in {"__init__": "", "low": "from upside import high", "high": ""}.items():
        (tmp_path / "upside" / f"{module}.py").write_text(text)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_package = "upside"\n[[tool.importlinter.contracts]]\n'
        'name = "down"\ntype = "layers"\nlayers = ["upside.high", "upside.low"]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert 0 != lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert "upside.low is not allowed to import upside.high" in capsys.readouterr().out


def test_every_room_stands_in_a_contract(repository):
    """A package that is on no list would be free to import anything."""
    text = (repository / "pyproject.toml").read_text()
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    named = {
        word.strip(" ()").removeprefix("twinlog.")
        for contract in contracts
        for entry in (*contract.get("layers", ()), *contract.get("source_modules", ()))
        for word in entry.split("|")
    }
    package = repository / "include" / "twinlog"
    rooms = {each.parent.name for each in package.glob("*/__init__.py")}
    assert set() == rooms - named


def modules_of(repository, room):
    folder = repository / "include" / "twinlog" / room
    return sorted(it.stem for it in folder.glob("*.py") if it.stem != "__init__")


def test_the_table_of_the_relay_has_every_module_once(repository):
    """docs/architecture.md and the folder name the same modules."""
    page = (repository / "docs" / "architecture.md").read_text()
    rows = re.findall(
        r"^\| (`.+?) \|", page.partition("## The relay\n")[2].partition("\n## ")[0], re.MULTILINE
    )
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert modules_of(repository, "relay") == sorted(named)


def test_the_table_of_the_steps_has_every_module_once(repository):
    """docs/architecture.md and the folder name the same modules."""
    page = (repository / "docs" / "architecture.md").read_text()
    table = page.partition("### Their modules\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert modules_of(repository, "steps") == sorted(re.findall(r"`(\w+)`", "".join(rows)))


def test_the_table_of_the_house_has_the_order_of_the_imports(repository):
    """Each row may import the ones above it: pyproject.toml's layers, from the bottom."""
    page = (repository / "docs" / "architecture.md").read_text()
    rows = re.findall(
        r"^\| (`.+?) \|", page.partition("## The house\n")[2].partition("\n## ")[0], re.MULTILINE
    )
    order = [set(re.findall(r"`(\w+)/`", row)) for row in rows]
    contract = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ][0]
    layers = [{word.strip(" ()") for word in entry.split("|")} for entry in reversed(contract["layers"])]
    levels = {room: level for level, layer in enumerate(layers) for room in layer}
    found = [min(levels[room] for room in row) for row in order if row <= levels.keys()]
    assert (
        sorted(found[2:]) == found[2:]
    )  # the first rows share levels; which of them comes first says nothing


@pytest.mark.parametrize(
    "room", ["config", "policy", "formats", "offsets", "relay", "cluster", "client", "embedded", "cli.main"]
)
def test_importing_a_room_costs_no_heavy_import(room):
    """Spark, Airflow, pandas and GX are imported by the functions that use them, not by who imports us."""
    heavy = ["great_expectations", "pandas", "pyspark", "airflow"]
    script = f"import sys, twinlog.{room}; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "[]" == answer.stdout.strip()

"""Imports point one way, and packages stay small enough to be read (docs/architecture.md).  Cost: about 3 s."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

from importlinter.cli import lint_imports

MOST_MODULES = 15
MOST_LINES = 450


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


def packages_of(repository):
    """Every package of the product, with its modules."""
    root = repository / "include" / "twinlog"
    for package in sorted({module.parent for module in root.rglob("*.py")}):
        modules = [module for module in sorted(package.glob("*.py")) if module.name != "__init__.py"]
        yield package.relative_to(root).as_posix(), modules


def test_a_package_has_at_most_15_modules(repository):
    """What does not fit is a concept of its own."""
    too_many = {
        name: len(modules) for name, modules in packages_of(repository) if len(modules) > MOST_MODULES
    }
    assert {} == too_many


def test_a_module_has_at_most_450_lines(repository):
    """What is longer holds more than one idea."""
    modules = [module for _, modules in packages_of(repository) for module in modules]
    lengths = {module.name: len(module.read_text().splitlines()) for module in modules}
    assert {} == {name: length for name, length in lengths.items() if length > MOST_LINES}


def test_steps_are_the_tasks_of_the_dag(repository):
    """A reader finds the step of the Dag as a module of the same name, of at most 40 lines.

    One task is no step: it skips all of them while there is no way home.
    """
    source = (repository / "include/twinlog/airflow/dags/replicate.py").read_text()
    tasks = set(re.findall(r'(?:task_id=|step\(\s*)"(\w+)"', source))
    steps = dict(packages_of(repository))["steps"]
    assert tasks - {"brings_home"} == {step.stem for step in steps}
    assert all(len(step.read_text().splitlines()) <= 40 for step in steps)


def test_the_table_of_the_house_has_every_package_in_the_order_of_the_imports(repository):
    """docs/architecture.md and pyproject.toml tell the same layers."""
    page = (repository / "docs" / "architecture.md").read_text()
    section = page.partition("## The house\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (`.+?) \|", section, re.MULTILINE)
    told: dict[int, set[str]] = {}
    for layer, names in rows:
        told.setdefault(int(layer), set()).update(re.findall(r"`(\w+)/?`", names))
    contracts = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    layers = [{name.strip(" ()") for name in layer.split("|")} for layer in contracts[0]["layers"]]
    assert layers == [told[layer] for layer in sorted(told)]


LIGHT = (
    "policy",
    "formats",
    "offsets",
    "batches.cutter",
    "config.flow.load",
    "protocol.fetcher",
    "lane.copy.copy_lane",
    "cluster.api",
    "state.ledger",
    "client",
    "lab.kafka",
    "cli.main",
)


def test_importing_a_package_costs_no_heavy_import():
    """Spark, Airflow, pandas and GX are imported by the functions that use them, not by who imports us."""
    script = """
import importlib, sys
for package in sys.argv[1:]:
    importlib.import_module(f"twinlog.{package}")
    if found := {"great_expectations", "pandas", "pyspark", "airflow"}.intersection(sys.modules):
        sys.exit(f"{package} imports {found}")
"""
    done = subprocess.run([sys.executable, "-c", script, *LIGHT], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr

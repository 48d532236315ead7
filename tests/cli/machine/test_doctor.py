"""Judging a machine from facts."""

import json
from dataclasses import replace

import pytest

from twinlog.cli.machine.doctor import PACKAGES, Machine, diagnose, pins_of_twinlog
from twinlog.cli.main import main

PINS = {name: "==4.1.3" if "spark" in name else ">=1" for name in PACKAGES}
GOOD = Machine(
    python=(3, 11, 7),
    packages=dict.fromkeys(PACKAGES, "4.1.3"),
    java="/usr/bin/java",
    java_version=17,
    memory_available=8 << 30,
    temporary_folder="/tmp",
    temporary_free=8 << 30,
    classes_kept=True,
    kernel=True,
)


def _failed(machine: Machine) -> tuple[bool, list[str]]:
    result = diagnose(machine, PINS)
    return result.passed, [check.name for check in result.checks if not check.passed]


def test_a_good_machine_passes_everything() -> None:
    """Nothing is held against it."""
    assert _failed(GOOD) == (True, [])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"python": (3, 14, 0)}, "python"),
        ({"python": (3, 10, 9)}, "python"),
        ({"java": None, "java_version": None}, "java"),
        ({"java_version": 25}, "java"),
        ({"java_version": None}, "java"),
    ],
)
def test_what_spark_cannot_run_on_is_critical(change: dict[str, object], name: str) -> None:
    """An unsupported Python or Java says no."""
    assert (False, [name]) == _failed(replace(GOOD, **change))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"memory_available": 1 << 30}, "memory"),
        ({"temporary_free": 1 << 20}, "disk"),
        ({"classes_kept": False}, "Spark's classes"),
        ({"kernel": False}, "compiled kernel"),
    ],
)
def test_what_may_be_fine_only_warns(change: dict[str, object], name: str) -> None:
    """A scarce or busy machine is told, not refused."""
    assert (True, [name]) == _failed(replace(GOOD, **change))


def test_two_sparks_in_one_folder_must_be_equal() -> None:
    """pyspark and pyspark-client overwrite each other's files."""
    packages = {**GOOD.packages, "pyspark-client": "4.1.2"}
    assert _failed(replace(GOOD, packages=packages)) == (
        False,
        ["pyspark-client", "pyspark = pyspark-client"],
    )


def test_a_missing_package_is_named() -> None:
    """A half-made environment says what is not there."""
    packages = {**GOOD.packages, "kafka-python": None}
    assert _failed(replace(GOOD, packages=packages)) == (False, ["kafka-python"])


@pytest.mark.parametrize("name", ["apache-airflow", "great-expectations"])
def test_what_an_extra_brings_may_be_missing(name: str) -> None:
    """It is told; but another version of it is refused."""
    assert (True, [name]) == _failed(replace(GOOD, packages={**GOOD.packages, name: None}))
    assert (False, [name]) == _failed(replace(GOOD, packages={**GOOD.packages, name: "0.9"}))


def test_the_pins_are_those_of_the_package() -> None:
    """The doctor asks for what pyproject.toml asks for, extras included; Airflow's provider brings pyspark-client."""
    assert {"pyspark-client"} == set(PACKAGES) - set(pins_of_twinlog())


def test_the_shape_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields may be added, these stay; the exit code follows `passed`."""
    code = main(["check", "--machine", "--output", "json"])
    report = json.loads(capsys.readouterr().out)
    assert code == (0 if report["passed"] else 1)
    keys = {"name", "severity", "passed", "observed", "expected", "message"}
    assert [it for it in report["checks"] if not keys <= set(it)] == []

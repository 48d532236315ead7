from pathlib import Path

import pytest

from twinlog.lab.demo.airflow_instance import AirflowInstance


def test_settings_of_another_airflow_are_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has an Airflow has its settings in the environment; ours has its own, and what it is given."""
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_SCHEMA", "theirs")
    monkeypatch.setenv("AIRFLOW_CONFIG", "/etc/airflow/airflow.cfg")
    monkeypatch.setenv("AIRFLOW_HOME", "/var/lib/airflow")
    monkeypatch.setenv("JAVA_HOME", "/usr/lib/jvm/21")
    given = {"AIRFLOW__CORE__PARALLELISM": "2"}

    environment = AirflowInstance(tmp_path, tmp_path / "mm2.properties", settings=given).environment

    assert [None, None, str(tmp_path), "2", "/usr/lib/jvm/21"] == [
        environment.get(name)
        for name in (
            "AIRFLOW__DATABASE__SQL_ALCHEMY_SCHEMA",
            "AIRFLOW_CONFIG",
            "AIRFLOW_HOME",
            "AIRFLOW__CORE__PARALLELISM",
            "JAVA_HOME",
        )
    ]


def test_components_find_each_other_behind_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the environment has a list of its own that does not name this machine."""
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "intranet")

    environment = AirflowInstance(tmp_path, tmp_path / "mm2.properties").environment

    assert ["127.0.0.1,localhost"] * 2 == [environment["NO_PROXY"], environment["no_proxy"]]

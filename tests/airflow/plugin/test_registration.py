"""What an Airflow finds by itself once twinlog is installed beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

PROGRAM = """
import json, os, sys
from airflow.plugins_manager import get_deadline_references_plugins, get_plugin_info
from airflow.providers_manager import ProvidersManager
plugins, providers = get_plugin_info(), ProvidersManager()
print(json.dumps({
    "plugins": [str(it["source"]) for it in plugins if it["name"] == "twinlog"],
    "provider": providers.providers["twinlog"].data["notifications"],
    "links": "twinlog.airflow.plugin.links.FlowPageLink" in providers.extra_links_class_names,
    "heavy": sorted({"numpy", "pandas", "great_expectations", "pyspark"}.intersection(sys.modules)),
    "deadlines": list(get_deadline_references_plugins()),
    "threads": os.environ.get("OPENBLAS_NUM_THREADS"),
}))
"""


def test_airflow_finds_provider_and_plugin_once(repository: Path, tmp_path: Path) -> None:
    """Also with the plugin folder; nothing that tasks of other teams would pay for comes into Airflow's processes."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS")} | {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(repository / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert 0 == done.returncode, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert ["twinlog==" in it for it in found.pop("plugins")] == [True], done.stdout
    assert {
        "provider": ["twinlog.airflow.notifiers.FlowNotifier"],
        "links": True,
        "deadlines": ["twinlog.airflow.versions.QueuedUnlessBackfill"],
        "heavy": [],
        "threads": None,
    } == found
    assert "already registered" not in done.stdout + done.stderr

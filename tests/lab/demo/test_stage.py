import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from twinlog.lab.demo import stage
from twinlog.process_id import ProcessId

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a kept demo."""
    folder = tmp_path / "demo"
    folder.mkdir()
    monkeypatch.setattr(stage, "_default_folder", lambda: folder)
    return folder


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process in a session of its own; it is killed at the end."""
    started = []

    def sleeper() -> "subprocess.Popen[bytes]":
        started.append(
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        )
        return started[-1]

    yield sleeper
    for process in started:
        process.kill()
        process.wait()


def test_a_kept_airflow_is_stopped(kept: Path, start: Start) -> None:
    """By another process than the one that started it, with what the folder says."""
    component = start()
    stage._note_leaders(kept, [component.pid])

    assert stage.stop_kept()
    assert component.wait(10)
    assert not kept.exists()
    assert not stage.stop_kept()


def test_whoever_has_an_old_id_now_is_left_alone(kept: Path, start: Start) -> None:
    """After a reboot the ids of a demo's sessions are strangers'."""
    stranger = start()
    earlier = asdict(ProcessId.of(stranger.pid)) | {"born": 1.0}
    (kept / "airflow-sessions.json").write_text(json.dumps([earlier]))

    assert stage.stop_kept()
    assert stranger.poll() is None

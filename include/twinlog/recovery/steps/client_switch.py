"""Send clients to the target: run a command, post to an address, or write a file; with a time-out and retries.

After a crash or a lost answer the event is sent again, so a receiver may get it twice: `run` names the failover.  The
event holds no secret.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from twinlog.config.flow.failover import FailoverSettings
from twinlog.config.flow.settings import FlowSettings
from twinlog.jsonable import Json

PAUSE_SECONDS = 2.0
_WORDS = 300


def event_of(flow: FlowSettings, run: str, mode: str, promoted_ms: int) -> dict[str, Any]:
    """Return what the hook is told: that clients of the source are to work on the target from now on.  Pure."""
    return {
        "event": "promoted",
        "flow": flow.name,
        "run": run,
        "mode": str(mode),
        "source": flow.source.alias,
        "target": flow.target.alias,
        "target_bootstrap_servers": flow.target.bootstrap_servers,
        "promoted_ms": promoted_ms,
    }


def way_of(settings: FailoverSettings) -> str:
    """Name the way in which clients are switched, "" if there is none.  Pure."""
    if settings.hook_command:
        return "command"
    if settings.hook_url is not None:
        return "HTTP call"
    return f"file {settings.hook_file}" if settings.hook_file is not None else ""


def switch(settings: FailoverSettings, event: Json, sleep: Callable[[float], None]) -> tuple[str, int]:
    """Try until it works, at most `hook_attempts` times; return why it failed ("" if it did not) and the attempts."""
    why = ""
    for attempt in range(1, settings.hook_attempts + 1):
        why = _once(settings, event)
        if not why:
            return "", attempt
        if attempt < settings.hook_attempts:
            sleep(PAUSE_SECONDS)
    return why, settings.hook_attempts


def _once(settings: FailoverSettings, event: Json) -> str:
    if settings.hook_command:
        return run_command(settings.hook_command, event, settings.hook_seconds)
    if settings.hook_url is not None:
        return _post(settings.hook_url.reveal(), event, settings.hook_seconds)
    assert settings.hook_file is not None
    return _write(settings.hook_file, event)


def run_command(command: str, event: Json, seconds: int) -> str:
    """Run a command with the event as JSON on stdin and in TWINLOG_* variables; kill it if it hangs.

    It gets the environment without twinlog's and Airflow's own variables, which hold passwords.  Return why it failed.
    """
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith(("TWINLOG_", "AIRFLOW_"))
    }
    named = {f"TWINLOG_{key.upper()}": str(value) for key, value in event.items()}
    try:
        words = shlex.split(command)
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=inherited | named,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"the command cannot be run: {error}"
    try:
        said, _ = process.communicate(json.dumps(event).encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"the command did not end within {seconds} s"
    if process.returncode == 0:
        return ""
    words_said = " ".join(said.decode(errors="replace").split())[-_WORDS:]
    return f"the command ended with {process.returncode}" + (f": {words_said}" if words_said else "")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for an error: following it would make a GET of the POST, and its 2xx a success."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _post(url: str, event: Json, seconds: int) -> str:
    body = json.dumps(event).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds):
            return ""
    except urllib.error.HTTPError as error:
        return f"the answer was {error.code}"
    except (OSError, ValueError) as error:  # an address may hold a token: its text is not shown
        reason = getattr(error, "reason", error)
        return f"the call failed: {type(reason).__name__}"


def _write(path: Path, event: Json) -> str:
    """Write the file whole or not at all: a program that watches it never sees half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
        ) as draft:
            draft.write(file_text(path, event))
            draft.flush()
            os.fsync(draft.fileno())
        Path(draft.name).chmod(0o644)
        Path(draft.name).replace(path)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"
    return ""


def file_text(path: Path, event: Json) -> str:
    """Return the file's content: a Kubernetes ConfigMap for `.yaml` and `.yml`, else the event as JSON.  Pure."""
    if path.suffix not in {".yaml", ".yml"}:
        return json.dumps(event, indent=2) + "\n"
    lines = [
        "apiVersion: v1",
        "kind: ConfigMap",
        "metadata:",
        f"  name: {path.stem}",
        "data:",
        f"  bootstrap.servers: {json.dumps(event['target_bootstrap_servers'])}",
        f"  cluster: {json.dumps(event['target'])}",
        *(f"  {key}: {json.dumps(str(event[key]))}" for key in ("flow", "run", "mode", "promoted_ms")),
    ]
    return "\n".join(lines) + "\n"

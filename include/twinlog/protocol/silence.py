"""Find out whether a cluster is silent: no broker of it answers.

A broker that restarts refuses connections for a moment, and one behind a lost network says nothing; only what lasts for
the seconds asked for is silence.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TransientError, TwinlogError
from twinlog.protocol.socket.connection import Connection

_PAUSE_SECONDS = 0.25


def answers(settings: ConnectionSettings, seconds: float) -> bool:
    """Say whether any bootstrap address answers within `seconds`; all are asked at once, again and again.

    A refused login is an answer.
    """
    limit_ms = int(seconds * 1000)
    hasty = replace(
        settings,
        connect_timeout_ms=min(settings.connect_timeout_ms, limit_ms),
        request_timeout_ms=min(settings.request_timeout_ms, limit_ms),
    )
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(max(1, len(settings.bootstrap))) as aside:
        asked = [aside.submit(_answers, hasty, host, port, until) for host, port in settings.bootstrap]
        return any(it.result() for it in asked)


def _answers(settings: ConnectionSettings, host: str, port: int, until: float) -> bool:
    while True:
        try:
            Connection(settings, host, port).close()
        except TransientError:
            if time.monotonic() + _PAUSE_SECONDS > until:
                return False
        except TwinlogError:
            return True
        else:
            return True
        time.sleep(_PAUSE_SECONDS)

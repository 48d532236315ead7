"""A flow that is being followed, for tests of its lane generations."""

from __future__ import annotations

import threading
import time
from typing import Any

from twinlog.config.flow.settings import FlowSettings
from twinlog.follow.followed import Followed
from twinlog.follow.generation import Following
from twinlog.follow.hold import Hold
from twinlog.follow.report import RunState
from twinlog.follow.topics import Topics


def following_of(
    flow: FlowSettings,
    *,
    clusters: Any = None,
    owned: Any = None,
    runner: Any = None,
    prepared: Any = None,
    run_state: RunState | None = None,
    seconds: float = 10_000,
    sharers: int = 1,
) -> Following:
    """A driver that has looked, and is about to open its first lanes; it gives way to every other."""
    state = run_state or RunState("run", 0)
    followed = Followed(flow, clusters, runner, threading.Event(), print, state, sharers)
    topics = Topics(followed, None, "run", prepared)
    return Following(followed, topics, Hold(owned, bool), time.monotonic() + seconds)

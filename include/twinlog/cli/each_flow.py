"""One flow after the other: a flow that fails is reported, and does not keep the others from being done.

So it is with a mistake of ours: with several flows at once it would be silent until the last of them has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from twinlog.cli.failure import Failure, explain_failure
from twinlog.cli.say import say
from twinlog.errors import ExitCode

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings

R = TypeVar("R")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """What became of the flows: a result for each, and the worst exit code of those that failed."""

    results: tuple[R, ...]
    exit_code: int


def each_flow(
    flows: Iterable[FlowSettings],
    work: Callable[[FlowSettings], R],
    failed: Callable[[FlowSettings, Failure], R],
) -> Done[R]:
    """Do `work` for each flow; one that raises gives the result of `failed` instead, and is said at once."""
    results: list[R] = []
    exit_code = int(ExitCode.DONE)
    for flow in flows:
        try:
            results.append(work(flow))
        except Exception as error:
            log.info("%s", flow.name, exc_info=True)  # shown under --debug
            failure = explain_failure(error)
            say(f"{flow.name}: {failure.text}")
            results.append(failed(flow, failure))
            exit_code = max(exit_code, failure.exit_code)
    return Done(tuple(results), exit_code)

"""Run flows one after the other: one that fails is reported and does not stop the others.

That includes a mistake in twinlog itself: with several flows at once it would be silent until the last of them ended.
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
    """The outcome of the flows: a result for each, and the worst exit code of those that failed."""

    results: tuple[R, ...]
    exit_code: int


def each_flow(
    flows: Iterable[FlowSettings],
    work: Callable[[FlowSettings], R],
    failed: Callable[[FlowSettings, Failure], R],
) -> Done[R]:
    """Do `work` for each flow; if it raises, report that at once and use the result of `failed`."""
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

"""Resolve a file and the names given with --flow into flows, and work on them one after the other.

A flow that fails is reported at once and does not stop the others.  That includes a mistake in twinlog itself: with
several flows it would be silent until the last of them ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from twinlog.cli.failure import Failure, explain_failure
from twinlog.cli.interrupt import pressed
from twinlog.cli.render import say, warn
from twinlog.errors import ConfigError, ExitCode, UsageError
from twinlog.jsonable import Json, to_json
from twinlog.policy.state_topics import HOME

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import Configuration, FlowSettings


def load_flows(path: Path, names: Sequence[str] | None) -> tuple[FlowSettings, ...]:
    """Read the file, print its warnings on stderr, and return the requested flows.

    Raises ConfigError if the file cannot be used, and UsageError if it has no such flow.
    """
    return select_flows(read_configuration(path), names)


def read_configuration(path: Path) -> Configuration:
    """Read the file, and print its warnings on stderr.  Raises ConfigError if it cannot be used."""
    from twinlog.config.flow.load import load

    configuration = load(path)
    for line in configuration.warnings:
        warn(line)
    return configuration


def select_flows(configuration: Configuration, names: Sequence[str] | None) -> tuple[FlowSettings, ...]:
    """Return the named flows in the order given, each once, or every enabled flow if none is named."""
    if not names and not configuration.enabled_flows:
        raise ConfigError(
            f"{configuration.path} enables no flow",
            "add a line such as A->B.enabled = true for two of its clusters: "
            + ", ".join(configuration.clusters),
            file=str(configuration.path),
        )
    if not names:
        return configuration.enabled_flows
    return tuple(_named(configuration, name) for name in dict.fromkeys(map(_tidy, names)))


def to_clusters(
    configuration: Configuration, flows: Sequence[FlowSettings], targets: str
) -> tuple[FlowSettings, ...]:
    """Return the flows whose target is one of these aliases, separated by commas or blanks, as MM2's `--clusters`.

    Raises UsageError for an alias that the file does not have, and if no flow is left; MM2 skips an unknown alias.
    """
    aliases = targets.replace(",", " ").split()
    known = ", ".join(configuration.clusters)
    for alias in aliases:
        if alias not in configuration.clusters:
            raise UsageError(
                f"--clusters: {configuration.path} has no cluster {alias}; its clusters are: {known}",
                file=str(configuration.path),
            )
    found = tuple(flow for flow in flows if flow.target.alias in aliases)
    if not found:
        raise UsageError(
            f"--clusters: no enabled flow of {configuration.path} copies to {', '.join(aliases) or 'no cluster'}",
            "name targets of flows: " + ", ".join(dict.fromkeys(flow.target.alias for flow in flows)),
            file=str(configuration.path),
        )
    return found


def _tidy(name: str) -> str:
    """Remove the blanks in `A -> B`, which MM2's file allows too."""
    return "->".join(part.strip() for part in name.split("->"))


def _named(configuration: Configuration, name: str) -> FlowSettings:
    from twinlog.config.flow.load import enabled_flow

    if name:
        return enabled_flow(configuration, name)
    known = ", ".join(flow.name for flow in configuration.enabled_flows) or "none"
    raise UsageError(
        "--flow is empty",
        f"name one of the enabled flows of {configuration.path}: {known}",
        file=str(configuration.path),
    )


def load_one_flow(path: Path, names: Sequence[str] | None) -> tuple[Configuration, FlowSettings]:
    """Read the file, print its warnings, and return the flow.

    Raises ConfigError if the file cannot be used, UsageError if it has no such flow, or has several and none is named.
    """
    configuration = read_configuration(path)
    flows = select_flows(configuration, names)
    if len(flows) > 1:
        several = ", ".join(flow.name for flow in flows)
        has = "--flow names" if names else f"{path} has"
        raise UsageError(
            f"this is about one flow, and {has} {several}",
            f"add --flow '{flows[0].name}'" if not names else "ask about each by itself",
        )
    return configuration, flows[0]


def load_flow_or_way_home(path: Path, names: Sequence[str] | None) -> tuple[Configuration, FlowSettings]:
    """Return the flow as `load_one_flow`; `B.home->A` names the one by which `A->B` goes home with other names.

    Raises TerminalError `no-way-home` if there is no such flow, and as `load_one_flow`.
    """
    if names is None or len(names) > 1 or HOME not in names[0]:
        return load_one_flow(path, names)
    configuration = read_configuration(path)
    return configuration, _way_home(configuration, _tidy(names[0]))


def load_flows_and_ways_home(path: Path, names: Sequence[str] | None) -> tuple[FlowSettings, ...]:
    """Return the flows as `load_flows`; a name may be a way home's, as for `load_flow_or_way_home`."""
    configuration = read_configuration(path)
    if not names:
        return select_flows(configuration, names)
    return tuple(_way_home(configuration, name) for name in dict.fromkeys(map(_tidy, names)))


def _way_home(configuration: Configuration, name: str) -> FlowSettings:
    from twinlog.recovery.ways_home import named_flow

    return (named_flow(configuration, name) if HOME in name else None) or _named(configuration, name)


R = TypeVar("R")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """The outcome of the flows: a result for each, and the worst exit code of those that failed."""

    results: tuple[R, ...]
    exit_code: int

    @classmethod
    def of(cls, parts: Iterable[Done[R]]) -> Self:
        """Add up the outcomes of parts of the flows."""
        found = list(parts)
        return cls(
            tuple(result for part in found for result in part.results), max(part.exit_code for part in found)
        )


@dataclass(frozen=True, slots=True)
class Told(Generic[R]):
    """Hold what a command found about one flow, or the reason why it found nothing."""

    flow: str
    found: R | None = None
    error: Failure | None = None

    def document(self, **unknown: Any) -> Json:
        """Return the JSON document that other programs rely on; `unknown` stands for what was not found."""
        known = {"flow": self.flow, **unknown} if self.found is None else to_json(self.found)
        return {**known, "error": to_json(self.error)}


def ask_each(flows: Iterable[FlowSettings], ask: Callable[[FlowSettings], R]) -> Done[Told[R]]:
    """Ask about each flow, as `each_flow` does."""

    def failed(flow: FlowSettings, failure: Failure) -> Told[R]:
        return Told(flow.name, error=failure)

    return each_flow(flows, lambda flow: Told(flow.name, ask(flow)), failed)


def each_flow(
    flows: Iterable[FlowSettings],
    work: Callable[[FlowSettings], R],
    failed: Callable[[FlowSettings, Failure], R],
) -> Done[R]:
    """Do `work` for each flow; if it raises, report that at once and use the result of `failed`."""
    results: list[R] = []
    exit_code: int = ExitCode.DONE
    for flow in flows:
        try:
            results.append(work(flow))
        except Exception as error:
            if pressed.is_set():  # of what Ctrl-C has hit; no further flow begins
                raise KeyboardInterrupt from error
            log.info("%s", flow.name, exc_info=True)  # shown under --debug
            failure = explain_failure(error)
            say(f"{flow.name}: {failure.text}")
            results.append(failed(flow, failure))
            exit_code = max(exit_code, failure.exit_code)
    return Done(tuple(results), exit_code)


def flows_at_once(
    flows: Iterable[FlowSettings],
    work: Callable[[FlowSettings], R],
    failed: Callable[[FlowSettings, Failure], R],
    most: int,
    interrupt: Callable[[], None],
) -> Done[R]:
    """Do what `each_flow` does for up to `most` flows at the same time; the results have the order of the flows.

    On Ctrl-C no further flow begins, `interrupt` is called, and KeyboardInterrupt leaves when those that have begun
    have ended.
    """
    with ThreadPoolExecutor(most) as pool:
        try:
            futures = [pool.submit(each_flow, [flow], work, failed) for flow in flows]
            return Done.of(future.result() for future in futures)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            interrupt()
            raise


@contextmanager
def clusters_with_ledger(flow: FlowSettings) -> Iterator[Clusters]:
    """Open a flow's clusters.  Raises TerminalError `no-ledger` if the flow has never run."""
    from twinlog.state.ledger import require_ledger
    from twinlog.state.own_clusters import open_own_clusters

    with open_own_clusters(flow) as clusters:
        require_ledger(flow, clusters.target)
        yield clusters

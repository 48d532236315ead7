"""The `twinlog` command: which commands there are, and what becomes of their errors.

Exit codes: 0 done, 1 the check or gate says no or a person has to act, 2 wrong usage or configuration,
3 a cluster cannot be reached or refuses, another twinlog copies, or a copy broke off.  Ctrl-C is 130, a mistake in
twinlog itself 70.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from twinlog import __version__
from twinlog.cli.failure import explain_failure, print_traceback
from twinlog.cli.inspection import metadata
from twinlog.cli.inspection.audit import audit
from twinlog.cli.inspection.check import check
from twinlog.cli.inspection.groups import groups
from twinlog.cli.inspection.plan import plan
from twinlog.cli.inspection.schemas import schemas
from twinlog.cli.inspection.status import status
from twinlog.cli.inspection.translate import translate
from twinlog.cli.interrupt import INTERRUPTED, take_ctrl_c
from twinlog.cli.machine.airflow_files import install
from twinlog.cli.machine.demo import demo
from twinlog.cli.machine.kafka import kafka
from twinlog.cli.machine.spark import spark
from twinlog.cli.migration.takeover import handover, takeover
from twinlog.cli.options import option
from twinlog.cli.recovery import runs
from twinlog.cli.recovery.accept import accept
from twinlog.cli.recovery.drill import drill
from twinlog.cli.recovery.failback import failback
from twinlog.cli.recovery.failover import failover
from twinlog.cli.recovery.gate import gate, verify
from twinlog.cli.render import OUTPUT, Output, say, show
from twinlog.cli.replication.claim import claim
from twinlog.cli.replication.gap import gaps
from twinlog.cli.replication.offsets import offsets
from twinlog.cli.replication.pause import pause, resume
from twinlog.cli.replication.rebuild import forget, rebuild
from twinlog.cli.replication.run import run
from twinlog.config.flow.load import LENIENT, STRICT
from twinlog.errors import ExitCode, UsageError
from twinlog.garbage import collect_rarely
from twinlog.shipped import commit
from twinlog.visible import VisibleFormatter

app = typer.Typer(
    name="twinlog",
    help="Replicate Kafka clusters for disaster recovery: exactly once, with exact offsets.",
    epilog="Exit codes: 0 done, 1 the check says no, or a person has to act, 2 wrong usage or configuration,"
    " 3 a cluster cannot be reached or refuses, another twinlog copies, or a copy broke off, 70 a mistake in twinlog,"
    " 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def twinlog(
    version: Annotated[bool, option("--version", "Print the version and its commit, and exit.")] = False,
    debug: Annotated[
        bool, option("--debug", "Show tracebacks of errors; may stand anywhere on the line.")
    ] = False,
    lenient: Annotated[
        bool, option("--lenient", "Only warn of keys that nobody knows; may stand anywhere on the line.")
    ] = False,
    strict: Annotated[
        bool,
        option(
            "--strict",
            "Fail on everything the file would otherwise be warned about; may stand anywhere on the line.",
        ),
    ] = False,
    output: Annotated[
        Output,
        option(
            "--output -o",
            "table for people, json for one document on stdout; may stand anywhere on the line.",
        ),
    ] = Output.TABLE,
) -> None:
    """Take what stands before the command."""
    del debug, lenient, strict, output  # main() has removed them from the line, wherever they stood
    if version:
        built_from = commit()
        typer.echo(f"twinlog {__version__}" + (f" (commit {built_from})" if built_from else ""))
        raise typer.Exit


EVERY_LINE = (
    "`-o json` gives one JSON document on stdout; `twinlog --help` lists what may stand on every line."
)
"""Ends the help of every command: Typer shows the options of the whole line with `twinlog --help` alone."""


def _group(text: str, **commands: Any) -> typer.Typer:
    """Return commands that stand under one noun."""
    made = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode="markdown")
    made.callback()(lambda: None)  # a group stays one if it has a single command
    for name, command in commands.items():
        made.command(name, epilog=EVERY_LINE)(command)
    return made


COMMANDS: Mapping[str, Mapping[str, Any]] = {
    "Replicate": {
        "run": run,
        "pause": pause,
        "resume": resume,
        "topics": _group(
            "The copies of single topics: copy anew, forget, move, and what they will never have.",
            rebuild=rebuild,
            forget=forget,
            offsets=offsets,
            gaps=gaps,
        ),
    },
    "Look, plan and prove": {
        "check": check,
        "plan": plan,
        "status": status,
        "groups": groups,
        "translate": translate,
        "audit": audit,
        "metadata": _group(
            "Topic configs, ACLs, quotas and schemas of a flow, brought to its target.",
            plan=metadata.plan,
            apply=metadata.apply,
            schemas=schemas,
        ),
    },
    "Fail over and come home": {
        "gate": gate,
        "failover": failover,
        "failback": failback,
        "drill": drill,
        "recovery": _group(
            "Where a failover stands, what was done, and the way back.",
            status=runs.status,
            abort=runs.abort,
            follow=runs.follow,
        ),
        "accept": accept,
        "evidence": _group("Evidence that the gate wrote.", verify=verify),
    },
    "Take over from another replicator": {
        "migrate": _group(
            "Go on behind another replicator or another name, and back.",
            takeover=takeover,
            handover=handover,
            claim=claim,
        )
    },
    "This machine": {
        "machine": _group(
            "Try twinlog here; brokers, a warm Spark, and files for an Airflow.",
            demo=demo,
            kafka=kafka,
            spark=spark,
            airflow=install,
        )
    },
}
"""Every command by what it is for, as `twinlog --help` shows them."""

for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel, epilog=EVERY_LINE)(command)


OLDER = {
    **{name: f"topics {name}" for name in ("rebuild", "forget")},
    **{name: f"migrate {name}" for name in ("takeover", "handover", "claim")},
    **{name: f"machine {name}" for name in ("demo", "kafka", "spark")},
    "airflow install": "machine airflow",
    "doctor": "check --machine",
    "explain": "plan --explain",
    "offsets show": "topics offsets",
    "offsets alter": "topics offsets",
    "gap list": "topics gaps",
    "waiver add": "accept",
    "waiver list": "accept",
    "waiver remove": "accept --withdraw",
    "quarantine list": "topics gaps",
    "schemas plan": "metadata schemas",
    "schemas apply": "metadata schemas --execute",
    "recovery history": "recovery status",
}
"""Names of release 0.2, which this release still takes: what each is called now."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; no exception leaves this function."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    if argv is None:
        take_ctrl_c()
    _quieten(logging.INFO if debug else logging.ERROR)
    collect_rarely()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on stderr: a name that the terminal cannot show is escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    for word, variable in {"--lenient": LENIENT, "--strict": STRICT}.items():
        if word in words:
            os.environ[variable] = "1"  # the Spark job and its like read the file, too
    words = [word for word in words if word not in {"--debug", "--lenient", "--strict"}]
    try:
        words = _renamed(_without_output(words))
        answer: Any = app(args=words, prog_name="twinlog", standalone_mode=False)
        if answer == INTERRUPTED:  # Typer's, for a KeyboardInterrupt
            raise KeyboardInterrupt
        return int(answer or ExitCode.DONE)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the one place that owns all errors
        if debug:
            print_traceback(error)
        failure = explain_failure(error)
        say(*failure.lines)
        if OUTPUT.get() is Output.JSON:
            show(failure.document)
        return int(failure.exit_code)


def _without_output(words: Sequence[str]) -> list[str]:
    """Take --output with its value off the line, and keep it for `show`.  Raises UsageError for another value."""
    OUTPUT.set(Output.TABLE)
    left: list[str] = []
    coming = iter(words)
    for word in coming:
        name, joined, value = word.partition("=")
        if name not in {"--output", "-o"}:
            left.append(word)
        elif (chosen := value if joined else next(coming, "")) in set(Output):
            OUTPUT.set(Output(chosen))
        else:
            raise UsageError(f"{name}: {chosen!r} is neither table nor json", "see twinlog --help")
    return left


def _renamed(words: list[str]) -> list[str]:
    """Return the line with the names of today, after a line on stderr if it had an older one."""
    for older, newer in OLDER.items():
        left = older.split()
        if words[:1] == left[:1] and set(left) <= set(words):
            say(f"`twinlog {older}` is `twinlog {newer}` now; the older name leaves with the next release")
            for word in left:
                words.remove(word)
            return [*newer.split(), *words]
    return words


def _quieten(level: int) -> None:
    """Keep log lines of client libraries below `level` off stderr: errors that matter are raised.

    Our own warnings are for people: what is done without, and why.
    """
    ours, others = logging.StreamHandler(), logging.StreamHandler()
    ours.setLevel(min(level, logging.WARNING))
    ours.addFilter(_is_ours)
    ours.setFormatter(VisibleFormatter("%(levelname)s: %(message)s"))
    others.setLevel(level)
    others.addFilter(lambda line: not _is_ours(line))
    others.setFormatter(VisibleFormatter("%(name)s: %(message)s"))
    logging.basicConfig(handlers=[ours, others], level=min(level, logging.WARNING), force=True)


def _is_ours(line: logging.LogRecord) -> bool:
    return line.name.startswith("twinlog.")


if __name__ == "__main__":
    sys.exit(main())

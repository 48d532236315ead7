"""Write json.md and ledger.md: every document and every ledger record, as the code declares them (`make reference`)."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlog.cli.failure import Failure
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.records import LedgerRecord

DOCS = Path(__file__).parent
BETWEEN_MARKERS = re.compile(r"(<!-- shapes -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """The document of some commands: `kind` is the dataclass (`module:Class`) that it is made of.

    `around` is the document with `{}` in place of that dataclass; `more` are fields beside those of the dataclass,
    `less` those that are left out of it.  `several` says when there is something around.
    """

    commands: Sequence[str]
    kind: str
    around: str = "{}"
    more: Mapping[str, Any] = field(default_factory=dict)
    less: Sequence[str] = ()
    several: str = ""

    @property
    def shape(self) -> type:
        """Return the dataclass."""
        module, _, name = self.kind.partition(":")
        found: type = getattr(importlib.import_module(f"twinlog.{module}"), name)
        return found

    def fields(self) -> dict[str, Any]:
        """Return the type of each field of the document, or of what stands in it once for each flow or item."""
        own = {name: it for name, it in fields_of(self.shape).items() if name not in self.less}
        return own | {name: _loaded(it) for name, it in self.more.items()}


FLOWS = '{"flows": [{}, ...]}'
LIST = '{"flow": text, "%s": [{}, ...]}'
FAILED = {"error": "cli.failure:Failure"}
NOT_SHOWN = ("exit_code", "transient")
DRY_RUN = {"dry_run": bool}
CHANGES = "list of objects: `kind`, `resource`, `name`, `from`, `to`, `action`, `item`"

ANSWERS = (
    Answer(
        ["run"],
        "monitoring.cycle_report:FlowReport",
        FLOWS,
        {
            "failures": "list:kafka_types:PartitionIssue",
            "failed_checks": "list:checks.check:CheckResult",
            "heartbeat_latency_ms": int | None,
            "groups": "cycle:GroupsRun",
            "windows": int,
            "copy_seconds": float,
            "duties": "list:duties.plan:DutyReport",
            "left_to": str,
            **FAILED,
        },
    ),
    Answer(["status"], "monitoring.status:FlowStatus", FLOWS, FAILED),
    Answer(["plan"], "cli.inspection.plan:FlowPlan", FLOWS),
    Answer(["check"], "cli.inspection.check:FlowCheck", '{"passed": true or false, "flows": [{}, ...]}'),
    Answer(["audit"], "audit.result:AuditResult", FLOWS, FAILED, several="Of several flows: "),
    Answer(["groups"], "groups.report:CheckpointsResult", FLOWS),
    Answer(["translate"], "client.pairs:Answer", "[{}, ...]", {"flow": str}),
    Answer(["translate --at"], "client.pairs:Answer", "[{}, ...]", {"flow": str, "as_of": "ISO time"}),
    Answer(["plan --explain"], "config.explain:Explanation"),
    Answer(["pause", "resume"], "cli.replication.pause:PauseOf", FLOWS),
    Answer(
        ["gate"],
        "gate.answer:GateResult",
        more={"headline": str, "evidence": str, "page": str, "evidence_sha256": str, "signed_by": str}
        | {"seen": str, "accept": "list:formats.ledger.accepted:Amount"},
    ),
    Answer(["evidence verify"], "gate.evidence:Verified", more={"verified": bool}),
    Answer(["accept"], "gate.answer:WaivedBy", LIST % "accepted"),
    Answer(["topics gaps"], "checks.gaps:GapReport", LIST % "gaps"),
    Answer(["failover"], "recovery.report:FailoverReport", less=NOT_SHOWN),
    Answer(["failback"], "recovery.failback.failback:FailbackReport", less=NOT_SHOWN),
    Answer(["drill"], "drill.report:DrillReport", less=NOT_SHOWN),
    Answer(["drill history"], "formats.ledger.recovery:DrillRun", LIST % "runs"),
    Answer(
        ["recovery status"],
        "recovery.history:RecoveryStatus",
        more={"runs": "list:recovery.history:RunStatus"},
    ),
    Answer(["recovery abort", "recovery follow"], "recovery.abort:AbortResult"),
    Answer(
        ["migrate takeover", "migrate handover"],
        "migration.takeover_report:TakeoverReport",
        FLOWS,
        {"duplicates": int, "beyond": int},
    ),
    Answer(["topics offsets"], "lifecycle.positions:CopyPositions"),
    Answer(["topics offsets --to"], "lifecycle.alter:AlterResult", more=DRY_RUN),
    Answer(["topics quarantine"], "quarantine.read:Quarantined", LIST % "records"),
    Answer(["topics rebuild"], "lifecycle.rebuild:RebuildResult"),
    Answer(["topics rebuild --dry-run"], "lifecycle.rebuild_plan:RebuildPlan"),
    Answer(["topics forget"], "lifecycle.forget:ForgetResult"),
    Answer(["migrate claim"], "copying.claim:ClaimResult"),
    Answer(
        ["metadata plan"],
        "metadata.values:MetadataPlan",
        more={"changes": CHANGES},
        less=("agreed", "unknown"),
    ),
    Answer(["metadata apply"], "metadata.sync:MetadataResult", more={"complete": bool, "applied": CHANGES}),
    Answer(["metadata schemas"], "schemas.sync:SchemaSync", less=("plan",)),
    Answer(["machine spark"], "cli.machine.spark:SparkStatus"),
    Answer(["machine spark cds"], "spark.classes:Made"),
    Answer(["check --machine"], "cli.machine.doctor:Diagnosis"),
    Answer(["machine demo"], "lab.demo.play:DemoReport"),
    Answer(["machine kafka"], "lab.kafka.fleet:Fleet"),
    Answer(
        ["machine airflow"], "cli.machine.airflow_files:Installed", '{"version": text, "files": [{}, ...]}'
    ),
)


def written(page: str) -> str:
    """Return one of the two pages with its sections as the code has them."""
    sections = documents() if page.startswith("# JSON") else ledger()
    return BETWEEN_MARKERS.sub(lambda found: f"{found[1]}\n{sections}\n{found[2]}", page)


def documents() -> str:
    """Return the sections of the documents, in the order in which one meets the commands."""
    shapes = _Shapes()
    shapes.todo(Failure)
    sections = [_answer(it, shapes) for it in ANSWERS]
    return "\n".join([*sections, "## Parts\n", *shapes.sections()])


def ledger() -> str:
    """Return the sections of the ledger's kinds, by their names."""
    shapes = _Shapes()
    kinds = sorted(typing.get_args(LedgerRecord), key=lambda it: it.KIND)
    sections = [_record(it, shapes) for it in kinds]
    return "\n".join([*sections, "## Parts\n", *shapes.sections()])


def _answer(answer: Answer, shapes: _Shapes) -> str:
    commands = ", ".join(f"twinlog {it}" for it in answer.commands)
    around = answer.around.replace("{}", answer.shape.__name__) if answer.around != "{}" else ""
    text = [
        f"## {commands}\n",
        *([f"{answer.several}`{around}`\n"] if around else []),
        _prose(answer.shape),
        "",
    ]
    return "\n".join([*text, *_table(answer.fields(), shapes)])


def _record(kind: type[LedgerEntry], shapes: _Shapes) -> str:
    key = ", ".join([f'"{kind.KIND}"', *kind.IDENTITY])
    return "\n".join([
        f"## {kind.KIND}\n",
        _prose(kind),
        "",
        f"Key: `[{key}]`",
        "",
        *_table(fields_of(kind), shapes),
    ])


class _Shapes:
    """The dataclasses that others have for fields: each gets a section once."""

    def __init__(self) -> None:
        self._found: dict[str, type] = {}

    def todo(self, shape: type) -> str:
        """Note a dataclass, and return a link to its section."""
        name = shape.__name__
        if self._found.setdefault(name, shape) is not shape:
            name = f"{shape.__module__.split('.')[1].capitalize()}{name}"
            self._found[name] = shape
        return f"[{name}](#{name.lower()})"

    def sections(self) -> Iterator[str]:
        """Yield the sections, also of those that are found meanwhile."""
        done: set[str] = set()
        while todo := [name for name in self._found if name not in done]:
            for name in todo:
                done.add(name)
                shape = self._found[name]
                yield "\n".join([
                    f"### {name}\n",
                    _prose(shape),
                    "",
                    *_table(fields_of(shape), self),
                ])


def fields_of(shape: type) -> dict[str, Any]:
    """Return the types of the fields that `to_json` writes, by name."""
    names: dict[str, Any] = {}
    for base in reversed(inspect.getmro(shape)[:-1]):
        module = importlib.import_module(base.__module__)
        names |= vars(module) | _deferred(inspect.getsource(module))
    hints = typing.get_type_hints(shape, names)
    return {it.name: hints[it.name] for it in dataclasses.fields(shape) if it.repr}


def _deferred(source: str) -> dict[str, Any]:
    """Return what a module imports for type checkers only."""
    found: dict[str, Any] = {}
    if block := re.search(r"^if TYPE_CHECKING:\n((?:    .*\n|\n)+)", source, re.MULTILINE):
        exec(inspect.cleandoc(block[1]), found)
    return found


def _loaded(kind: Any) -> Any:
    """Return a type that is named by `module:Class`, or `list:module:Class`; other text is what the page says."""
    named = re.fullmatch(r"(list:)?([a-z0-9_.]+):([A-Za-z]+)", kind) if isinstance(kind, str) else None
    if named is None:
        return kind
    found = getattr(importlib.import_module(f"twinlog.{named[2]}"), named[3])
    return tuple[found, ...] if named[1] else found | None


def _table(fields: Mapping[str, Any], shapes: _Shapes) -> list[str]:
    rows = [f"| `{name}` | {_told(kind, shapes)} |" for name, kind in fields.items()]
    return ["| field | is |", "|---|---|", *rows, ""] if rows else []


_PLAIN = {str: "text", int: "integer", float: "number", bool: "true or false", bytes: "base64"}


def _told(kind: Any, shapes: _Shapes) -> str:  # noqa: PLR0911  one line a form
    if isinstance(kind, str):
        return kind
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is Any:
        return "any JSON"
    if kind is type(None):
        return "null"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return ", ".join(f"`{it.value}`" for it in kind)
    if dataclasses.is_dataclass(origin or kind):
        return shapes.todo(typing.cast("type", origin or kind))
    if isinstance(kind, typing.TypeVar):
        return "text"
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(dict.fromkeys(_told(it, shapes) for it in parts))
    if origin is not None and issubclass(origin, Mapping):
        return f"object of {_told(parts[1], shapes)} by name"
    if origin in {tuple, list, frozenset, set} or (origin is not None and issubclass(origin, Sequence)):
        return f"list of {_told(parts[0], shapes)}"
    raise TypeError(f"{kind} has no form on the page")


def _prose(shape: type) -> str:
    return inspect.cleandoc(shape.__doc__ or "")


if __name__ == "__main__":
    for page in (DOCS / "json.md", DOCS / "ledger.md"):
        page.write_text(written(page.read_text()))

"""Write the JSON Schemas of every document and every ledger record, as the code declares them (`make reference`).

docs/json/documents.schema.json and docs/json/ledger.schema.json; json.md and ledger.md list what is in them.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import re
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlog.cli.failure import Failure
from twinlog.formats.ledger.entry import VERSION, LedgerEntry
from twinlog.formats.ledger.records import FlowPhase, LedgerRecord
from twinlog.lifecycle.positions import CopyPosition

DOCS = Path(__file__).parent
BETWEEN_MARKERS = re.compile(r"(<!-- shapes -->\n).*?(<!-- end -->)", re.DOTALL)
DRAFT = "https://json-schema.org/draft/2020-12/schema"
LISTED = "[]"
"""The document is a list."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The document of some commands: `kind` is the dataclass (`module:Class`) that it is made of.

    `inside` is the field that holds a list of that dataclass, "" if the document is the dataclass itself, and `beside`
    are the fields beside that list; with `alone` a document of one flow has no such list.  `more` are fields beside
    those of the dataclass, `less` those that are left out of it.
    """

    commands: Sequence[str]
    kind: str
    inside: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    less: Sequence[str] = ()
    alone: bool = False

    @property
    def name(self) -> str:
        """Return the name of its definition: the first command's."""
        return re.sub(r"[ -]+", "-", self.commands[0])

    @property
    def shape(self) -> type:
        """Return the dataclass."""
        module, _, name = self.kind.partition(":")
        found: type = getattr(importlib.import_module(f"twinlog.{module}"), name)
        return found

    @property
    def around(self) -> str:
        """Return the document in short, for the page."""
        name = self.shape.__name__
        if not self.inside:
            return f"`{name}`"
        one, many = f"[{name}, ...]", ", ".join([*self.beside, self.inside])
        text = one if self.inside == LISTED else f"{{{many}: {one}}}"
        return f"`{text}`, of one flow `{name}`" if self.alone else f"`{text}`"

    def fields(self) -> dict[str, Any]:
        """Return the type of each field of the document, or of what stands in it once for each flow or item."""
        own = {name: kind for name, kind in fields_of(self.shape).items() if name not in self.less}
        return own | {name: _loaded(kind) for name, kind in self.more.items()}


FLOW = {"flow": str}
FAILED = {"error": "cli.failure:Failure"}
NOT_SHOWN = ("exit_code", "transient")
DRY_RUN = {"dry_run": bool}
CHANGES = list[Mapping[str, Any]]

SHOWN_BESIDES: Mapping[type, Mapping[str, Any]] = {CopyPosition: {"lag": int | None}}
"""Fields that a command computes, and writes beside those of a dataclass."""

ANSWERS = (
    Answer(
        ["run"],
        "monitoring.cycle_report:FlowReport",
        "flows",
        more={
            "failures": "list:kafka_types:PartitionIssue",
            "failed_checks": "list:judge.check:CheckResult",
            "heartbeat_latency_ms": int | None,
            "groups": "cycle:GroupsRun",
            "windows": int,
            "copy_seconds": float,
            "duties": "list:duties.plan:DutyReport",
            "left_to": str,
            **FAILED,
        },
    ),
    Answer(
        ["status"],
        "monitoring.status:FlowStatus",
        "flows",
        more={"state": {"enum": [*(phase.value for phase in FlowPhase), "unknown"]}, **FAILED},
    ),
    Answer(["plan"], "cli.inspection.plan:FlowPlan", "flows", more=FAILED),
    Answer(["check"], "cli.inspection.check:FlowCheck", "flows", {"passed": bool}, FAILED),
    Answer(["audit"], "audit.result:AuditResult", "flows", more=FAILED, alone=True),
    Answer(["groups"], "groups.report:CheckpointsResult", "flows"),
    Answer(["translate"], "client.pairs:Answer", LISTED, more=FLOW),
    Answer(["translate --at"], "client.pairs:Answer", LISTED, more={**FLOW, "as_of": str}),
    Answer(["plan --explain"], "config.explain:Explanation"),
    Answer(["pause", "resume"], "cli.replication.pause:PauseOf", "flows"),
    Answer(
        ["gate"],
        "gate.answer:GateResult",
        more={"headline": str, "evidence": str, "page": str, "evidence_sha256": str, "signed_by": str}
        | {"seen": str, "accept": "list:formats.ledger.accepted:Amount"},
    ),
    Answer(["evidence verify"], "gate.evidence:Verified", more={"verified": bool}),
    Answer(["accept"], "gate.answer:WaivedBy", "accepted", FLOW),
    Answer(["topics gaps"], "facts.gaps:GapReport", "gaps", FLOW),
    Answer(["failover"], "recovery.report:FailoverReport", less=NOT_SHOWN),
    Answer(["failback"], "recovery.report:FailbackReport", less=NOT_SHOWN),
    Answer(["drill"], "drill.report:DrillReport", less=NOT_SHOWN),
    Answer(["drill history"], "formats.ledger.recovery:DrillRun", "runs", FLOW),
    Answer(
        ["recovery status"],
        "recovery.history:RecoveryStatus",
        more={"runs": "list:recovery.history:RunStatus"},
    ),
    Answer(["recovery abort", "recovery follow"], "recovery.abort:AbortResult"),
    Answer(
        ["migrate takeover", "migrate handover"],
        "migration.takeover_report:TakeoverReport",
        "flows",
    ),
    Answer(["topics offsets"], "lifecycle.positions:CopyPositions"),
    Answer(["topics offsets --to"], "lifecycle.alter:AlterResult", more=DRY_RUN),
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
    Answer(["machine airflow"], "cli.machine.airflow_files:Installed", "files", {"version": str}),
)


def schemas() -> dict[str, dict[str, Any]]:
    """Return both schemas, by the name of their file."""
    return {"documents": documents(), "ledger": ledger()}


def documents() -> dict[str, Any]:
    """Return the schema of the documents, in the order in which one meets the commands."""
    shapes = _Shapes()
    failure = {"type": "object", "properties": {"error": shapes.ref(Failure)}, "required": ["error"]}
    answers = {answer.name: _document(answer, shapes) for answer in ANSWERS}
    return {
        "$schema": DRAFT,
        "title": "What twinlog's commands write to stdout with --output json",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in ("failed", *answers)],
        "$defs": {
            "failed": {"title": "a command that failed as a whole", **failure},
            **answers,
            **shapes.made(),
        },
    }


def ledger() -> dict[str, Any]:
    """Return the schema of the ledger's values, by the kinds' names."""
    shapes = _Shapes()
    kinds = {kind.KIND: _record(kind, shapes) for kind in ledger_kinds()}
    return {
        "$schema": DRAFT,
        "title": "The values of the records in mm2-ledger.A.internal",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in kinds],
        "$defs": {**kinds, **shapes.made()},
    }


def ledger_kinds() -> list[type[LedgerEntry]]:
    """Return the kinds of records, by their names."""
    return sorted(typing.get_args(LedgerRecord), key=lambda kind: kind.KIND)


def written(page: str) -> str:
    """Return json.md or ledger.md with its list as the code has it."""
    rows = _document_rows() if page.startswith("# JSON") else _record_rows()
    return BETWEEN_MARKERS.sub(lambda found: "\n".join([found[1], *rows, "", found[2]]), page)


def _document_rows() -> list[str]:
    rows = [f"| {', '.join(f'`{it}`' for it in answer.commands)} | {answer.around} |" for answer in ANSWERS]
    return ["| command | document |", "|---|---|", *rows]


def _record_rows() -> list[str]:
    rows = [f"| `{kind.KIND}` | {' '.join(_prose(kind).splitlines()[:1])} |" for kind in ledger_kinds()]
    return ["| kind | is |", "|---|---|", *rows]


def _document(answer: Answer, shapes: _Shapes) -> dict[str, Any]:
    """Return the definition of what some commands write."""
    part = _object(answer.fields(), shapes, _prose(answer.shape))
    if "error" in answer.more:  # a flow that failed may lack the others
        failed = {"properties": {"error": shapes.ref(Failure)}, "required": ["error"]}
        part["anyOf"] = [{"required": part.pop("required")}, failed]
    title = ", ".join(f"twinlog {command}" for command in answer.commands)
    if not answer.inside:
        return {"title": title, **part}
    several: dict[str, Any] = {"type": "array", "items": part}
    if answer.inside != LISTED:
        several = _object({**answer.beside, answer.inside: several}, shapes)
    return {"title": title, **({"anyOf": [several, part]} if answer.alone else several)}


def _record(kind: type[LedgerEntry], shapes: _Shapes) -> dict[str, Any]:
    """Return the definition of one kind of records."""
    key = ", ".join([f'"{kind.KIND}"', *kind.IDENTITY])
    fields = {"version": {"const": VERSION}, **fields_of(kind)}
    return {"$comment": f"key: [{key}]", **_object(fields, shapes, _prose(kind))}


def _object(fields: Mapping[str, Any], shapes: _Shapes, description: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {"description": description} if description else {}
    properties = {name: schema_of(kind, shapes) for name, kind in fields.items()}
    return {**found, "type": "object", "properties": properties, "required": [*fields]}


class _Shapes:
    """The dataclasses that others have for fields: each is defined once."""

    def __init__(self) -> None:
        self._found: dict[str, type] = {}

    def ref(self, shape: type) -> dict[str, Any]:
        """Note a dataclass, and return a reference to its definition."""
        name = shape.__name__
        if self._found.setdefault(name, shape) is not shape:
            name = f"{shape.__module__.split('.')[1].capitalize()}{name}"
            self._found[name] = shape
        return {"$ref": f"#/$defs/{name}"}

    def made(self) -> dict[str, Any]:
        """Return the definitions, also of those that are found meanwhile."""
        done: dict[str, Any] = {}
        while todo := [name for name in self._found if name not in done]:
            for name in todo:
                done[name] = _object(fields_of(self._found[name]), self, _prose(self._found[name]))
        return done


def fields_of(shape: type) -> dict[str, Any]:
    """Return the types of the fields that `to_json` writes, by name."""
    names: dict[str, Any] = {}
    for base in reversed(inspect.getmro(shape)[:-1]):
        module = importlib.import_module(base.__module__)
        names |= vars(module) | _deferred(inspect.getsource(module))
    hints = typing.get_type_hints(shape, names)
    own = {it.name: hints[it.name] for it in dataclasses.fields(shape) if it.repr}
    return own | SHOWN_BESIDES.get(shape, {})


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


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(kind: Any, shapes: _Shapes) -> dict[str, Any]:  # noqa: PLR0911  one line a form
    """Return the schema of a type; a schema stays as it is."""
    if isinstance(kind, dict):
        return kind
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind in _PLAIN or isinstance(kind, typing.TypeVar):
        return {"type": _PLAIN.get(kind, "string")}
    if kind is bytes:
        return {"type": "string", "contentEncoding": "base64"}
    if kind is Any:
        return {}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if dataclasses.is_dataclass(origin or kind):
        return shapes.ref(typing.cast("type", origin or kind))
    if origin in {typing.Union, types.UnionType}:
        several = [schema_of(part, shapes) for part in parts]
        return {"anyOf": [it for place, it in enumerate(several) if it not in several[:place]]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(parts[1], shapes)}
    if origin in {tuple, list, frozenset, set} or (origin is not None and issubclass(origin, Sequence)):
        return {"type": "array", "items": schema_of(parts[0], shapes)}
    raise TypeError(f"{kind} has no schema")


def _prose(shape: type) -> str:
    return inspect.cleandoc(shape.__doc__ or "")


def text_of(schema: Mapping[str, Any]) -> str:
    """Return a schema as its file has it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, schema in schemas().items():
        (DOCS / "json" / f"{name}.schema.json").write_text(text_of(schema))
    for page in (DOCS / "json.md", DOCS / "ledger.md"):
        page.write_text(written(page.read_text()))

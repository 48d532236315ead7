"""A metadata plan as a file: saved, reviewed and approved by people, applied later, once, and only as approved.

The file is JSON; its `digest` covers everything else in it.  It reveals an edit; it does not prove who made the plan.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from twinlog.config.flow.metadata import Profile
from twinlog.errors import UsageError
from twinlog.jsonable import Json, from_json
from twinlog.metadata import values

FORMAT = "metadata-plan-1"
_READER: TypeAdapter[values.MetadataChange] = TypeAdapter(values.MetadataChange)


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """The content of a plan file: its flow and clusters, its profile, and the approved changes."""

    flow: str
    profile: Profile
    source_cluster_id: str
    target_cluster_id: str
    changes: tuple[values.MetadataChange, ...]
    digest: str


def plan_document(
    plan: values.MetadataPlan, source_cluster_id: str, target_cluster_id: str, at_ms: int
) -> Json:
    """Write a plan as the document that is saved at `at_ms` (epoch ms).

    The digest covers the time: the same changes, planned again for another failover, are another plan.
    """
    document = {
        "format": FORMAT,
        "saved_at_ms": at_ms,
        "source_cluster_id": source_cluster_id,
        "target_cluster_id": target_cluster_id,
        **plan.document,
    }
    return {**document, "digest": digest_of(document)}


def digest_of(document: Json) -> str:
    """Return the SHA-256 of a document without its digest, whatever its spacing and order."""
    content = {name: value for name, value in document.items() if name != "digest"}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def parse_plan(text: str, name: str) -> SavedPlan:
    """Read a saved plan; `name` is the file's name, for messages.

    Raises UsageError `plan-file` if it is not a saved plan, or was changed since.
    """
    try:
        document = from_json(text)
    except ValueError:
        raise _no_plan(name, "it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _no_plan(name, f"its format is not {FORMAT}")
    if document.get("digest") != digest_of(document):
        raise UsageError(
            f"{name} was edited after it was saved: its digest does not match",
            hint="make a new plan and have it approved",
            code="plan-file",
            file=name,
        )
    try:
        return SavedPlan(
            flow=document["flow"],
            profile=Profile(document["profile"]),
            source_cluster_id=document["source_cluster_id"],
            target_cluster_id=document["target_cluster_id"],
            changes=tuple(_change(it) for it in document["changes"]),
            digest=document["digest"],
        )
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise _no_plan(name, f"{type(error).__name__} in it") from error


def _change(document: Json) -> values.MetadataChange:
    change = _READER.validate_json(json.dumps(document["item"]))
    if values.change_document(change) != document:
        raise ValueError("what it shows is not what it does")
    return change


def _no_plan(name: str, why: str) -> UsageError:
    return UsageError(
        f"{name} is no saved metadata plan: {why}",
        hint="write one with twinlog metadata plan --save FILE",
        code="plan-file",
        file=name,
    )

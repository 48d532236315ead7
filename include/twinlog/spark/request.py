"""The request of a Spark application, as JSON on its command line: which step of which flow, and how far.

It holds no secret: the application reads the configuration itself, and an Airflow task hands the values of its
connections over in the environment.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from twinlog.audit.request import AuditRequest
from twinlog.errors import UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MARK = "TWINLOG_RESULT_MARK"
"""The environment variable with the key of the line that a submitted application prints last."""

_STRICT = {"extra": "forbid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """Copy what is pending, up to `until_ms` (epoch ms); with `follow_seconds`, stay and copy what arrives.

    `run_id` names the run in the ledger.  `topics` empty means all of the flow.  Following ends in order if a run takes
    over whose id begins with `gives_way_to`; if that is empty, every rival is an error.
    """

    __pydantic_config__: ClassVar = _STRICT
    step: Literal["copy"] = "copy"
    config: Path
    flow: str
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    until_ms: int | None = None
    topics: tuple[str, ...] = ()
    follow_seconds: float | None = None
    gives_way_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditStepRequest:
    """Compare the copy with its source, as `audit` says."""

    __pydantic_config__: ClassVar = _STRICT
    step: Literal["audit"] = "audit"
    config: Path
    flow: str
    audit: AuditRequest = field(default_factory=AuditRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverRequest:
    """Do the steps `only` of a failover for the person `by`, all that are left if it is empty.

    `cost` is what that person has answered to, "" if nobody has yet; it said that `known` records are lost.  Without
    `by` the ledger names the person, and the answer.
    `last_ended` is the newest failover that had been taken back when it began.  `driver` names what it is for: whatever
    goes on with it has the same.  `found` is for the evidence.
    """

    __pydantic_config__: ClassVar = _STRICT
    step: Literal["failover"] = "failover"
    config: Path
    flow: str
    mode: Literal["planned", "source-dead"]
    by: str
    only: tuple[str, ...] = ()
    known: int = 0
    cost: str = ""
    rejected: bool = False
    last_ended: str = ""
    driver: str = "failover"
    found: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailbackRequest:
    """Bring the flow home from `failover`, or do the steps `only` of that; `tail` as `twinlog failback --tail`.

    `last_turned_back` is the newest way home that had been given up when it began; the rest as of a failover.
    """

    __pydantic_config__: ClassVar = _STRICT
    step: Literal["failback"] = "failback"
    config: Path
    flow: str
    by: str
    failover: str
    last_turned_back: str = ""
    tail: Literal["keep"] | None = None
    driver: str = "failback"
    only: tuple[str, ...] = ()
    cost: str = ""
    rejected: bool = False
    found: dict[str, Any] = field(default_factory=dict)


Request = CopyRequest | AuditStepRequest | FailoverRequest | FailbackRequest


def read_request(text: str) -> Request:
    """Parse a request.  Raises UsageError with the first mistake."""
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"the request is not understood: {f'{place}: ' if place else ''}{first['msg']}",
            hint='write {"step": "copy", "config": "mm2.properties", "flow": "A->B"}',
        ) from None


def as_json(request: Request) -> str:
    """Return the text that `read_request` parses."""
    return _adapter().dump_json(request, exclude_none=True).decode()


@cache
def _adapter() -> TypeAdapter[Request]:
    from pydantic import Field, TypeAdapter

    return TypeAdapter(Annotated[Request, Field(discriminator="step")])


class Running(Protocol):
    """Spark jobs that run on by themselves on a Connect server if their client is gone."""

    def cancel(self) -> None:
        """Cancel them."""


OnStart = Callable[[Running], None]

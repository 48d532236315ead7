"""`twinlog evidence verify`: tell whether this really was the gate's answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from twinlog.cli.render import Grid, show
from twinlog.errors import FormatError, UsageError
from twinlog.jsonable import to_json


def verify(
    file: Annotated[Path, Argument(metavar="FILE", help="The evidence, JSON.")],
    *,
    key: Annotated[Path, Option("--key", metavar="PUB.PEM", help="Public Ed25519 key.")],
) -> int:
    """Check the signature of evidence; exit 1 if it has none, is signed by another key, or was changed.

    Example: `twinlog evidence verify evidence.json --key public.pem`. Next: `twinlog failover --dry-run`.
    """
    from twinlog.gate.evidence import read_public_key
    from twinlog.gate.evidence import verify as verified

    public = read_public_key(key)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "give the evidence's file") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not text", "give the evidence's file") from None
    try:
        found = verified(text, public)
    except FormatError as error:  # not a forgery: the file is something else
        raise UsageError(error.message, error.hint or "give the file that `twinlog gate` wrote") from None
    rows = [(name.replace("_", " "), value) for name, value in to_json(found).items()]
    show(
        {"verified": True, **to_json(found)},
        [Grid(f"{file.name}: verified", ("what", "value"), rows)],
    )
    return 0

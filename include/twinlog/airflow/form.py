"""The fields of the trigger forms of twinlog's Dags, and the refusal of a run that gives others."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from airflow.sdk import Param

from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError


def flag(title: str, description: str, *, on: bool = False) -> Param:
    """Return a switch."""
    return Param(on, type="boolean", title=title, description=description)


def dry_run(description: str = "Say what would be done, and change nothing.", *, on: bool = False) -> Param:
    """Return the switch of a run that changes nothing."""
    return flag("Dry run", description, on=on)


def text(title: str, description: str, *kinds: str, **schema: Any) -> Param:
    """Return a field for a text, empty at first; of kind `null`, too, the form does not star it as required."""
    return Param("", type=["string", *kinds], title=title, description=description, **schema)


def names(title: str, description: str, **schema: Any) -> Param:
    """Return a field for a list of names, empty at first; the form stars as required what may not be null."""
    schema |= {"type": ["array", "null"], "items": {"type": "string"}}
    return Param([], title=title, description=description, **schema)


def choice(default: str, values: tuple[str, ...], title: str, description: str) -> Param:
    """Return a field for one of some values."""
    return Param(default, enum=list(values), title=title, description=description)


CHOSEN, CHOSEN_SOURCE, CHOSEN_TARGET = (
    "{{ params.flow }}",
    "{{ params.flow.split('->')[0] }}",
    "{{ params.flow.split('->')[1] }}",
)
"""The flow that a form names, and its ends, as templates."""


def flow(flows: Sequence[FlowSettings]) -> Param:
    """Return the field for one of these flows; if there are several, a person has to choose."""
    names = [settings.name for settings in flows]
    only = {"default": names[0]} if len(names) == 1 else {}
    return Param(**only, type="string", enum=names, title="Flow", description="What this run is about.")


def moment(title: str, description: str, **schema: Any) -> Param:
    """Return a field for a time, or none."""
    return Param(
        None, type=["null", "string"], format="date-time", title=title, description=description, **schema
    )


A_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}"
"""The pattern of a time in a form: Airflow does not check formats."""


_OF_AIRFLOW = "openlineage"
"""The key with which a TriggerDagRunOperator says for OpenLineage who triggers."""


def refuse_unknown_fields(context: Any) -> None:
    """Raise UsageError if the configuration of a run has a key that is no field of the Dag's form.

    Airflow passes it on unseen: `{"dryrun": true}` would be a real failover.
    """
    known = list(context["dag"].params)
    unknown = [key for key in context["dag_run"].conf or () if key not in {*known, _OF_AIRFLOW}]
    if not unknown:
        return
    near = difflib.get_close_matches(unknown[0], known, 1)
    raise UsageError(
        f"the form has no field {unknown[0]!r}: nothing is done",
        f"did you mean {near[0]}?" if near else f"its fields are {', '.join(known)}",
        field=unknown[0],
    )

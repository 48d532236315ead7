"""Operators for Dags of your own, and the steps that twinlog's own Dags run on Spark.

Each is imported when it is asked for: Dag files are parsed every few seconds, and pay for what they use only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twinlog.airflow.operators.audit import AuditOperator
    from twinlog.airflow.operators.replicate import ReplicateOperator
    from twinlog.airflow.operators.translate import TranslateGroupOperator

__all__ = ["AuditOperator", "ReplicateOperator", "TranslateGroupOperator"]

_MODULES = {
    "AuditOperator": "audit",
    "ReplicateOperator": "replicate",
    "TranslateGroupOperator": "translate",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

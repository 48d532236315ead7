"""Operators for Dags of your own, and the steps that twinlog's own Dags run on Spark."""

from twinlog.airflow.operators.audit import AuditOperator
from twinlog.airflow.operators.replicate import ReplicateOperator
from twinlog.airflow.operators.translate import TranslateGroupOperator

__all__ = ["AuditOperator", "ReplicateOperator", "TranslateGroupOperator"]

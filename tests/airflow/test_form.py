"""Show a form to people, and refuse what is no field of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import UsageError

pytestmark = pytest.mark.airflow


def test_the_page_of_a_dag_shows_no_token() -> None:
    """It names the Connect server; whoever may look at a Dag may not use Spark."""
    from twinlog.airflow.cycle import describe_flow

    ends = [
        ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),))) for alias in "AB"
    ]
    flow = FlowSettings(*ends)
    master = "sc://spark:15002/;use_ssl=true;token=geheim"
    page = describe_flow(replace(flow, copy=replace(flow.copy, spark_master=master)))

    assert "| Spark | `sc://spark:15002/` |" in page
    assert "geheim" not in page
    assert "asset `twinlog://B/`" in page


@pytest.mark.parametrize("value", [[], ["orders"], None])
def test_a_list_that_may_be_empty_is_not_starred_as_required(value: list[str] | None) -> None:
    """Airflow's form stars each field whose type has no null; emptied, it is null."""
    from twinlog.airflow.cycle import PARAMS

    field = PARAMS["topics"]
    assert ("null" in field.schema["type"], value) == (True, field.resolve(value))


def test_a_choice_of_nothing_has_words() -> None:
    """The form would offer a literal null."""
    from twinlog.airflow.tasks import failback, metadata

    fields = failback.PARAMS["tail"], metadata.PARAMS["profile"]
    assert ["(ask, if there are any)", "(as the file says)"] == [
        it.schema["values_display"]["null"] for it in fields
    ]


class TestRefuseUnknownFields:
    """`conf` is what somebody gave a run by the command line or the API, where no form holds it."""

    @staticmethod
    def refuse(conf: dict[str, Any] | None) -> None:
        from twinlog.airflow.form import refuse_unknown_fields

        form = {"mode": None, "dry_run": None}
        refuse_unknown_fields({"dag": SimpleNamespace(params=form), "dag_run": SimpleNamespace(conf=conf)})

    @pytest.mark.parametrize("conf", [None, {}, {"mode": "planned", "dry_run": True}, {"openlineage": {}}])
    def test_fields_of_the_form_are_taken(self, conf: dict[str, Any] | None) -> None:
        """Airflow checks their values; what a TriggerDagRunOperator adds by itself is no field."""
        self.refuse(conf)

    @pytest.mark.parametrize(
        ("conf", "hint"),
        [
            ({"mode": "planned", "dryrun": True}, "did you mean dry_run?"),
            ({"force": True}, "its fields are mode, dry_run"),
        ],
    )
    def test_another_key_is_refused(self, conf: dict[str, Any], hint: str) -> None:
        """Airflow ignores it: the dry run of a failover would be a failover."""
        with pytest.raises(UsageError, match="the form has no field") as refused:
            self.refuse(conf)
        assert hint == refused.value.hint

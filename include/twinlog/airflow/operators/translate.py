"""The position of a consumer group at the other side of a flow, for Dags of your own."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context

from twinlog.airflow.plugin.links import FlowPageLink
from twinlog.airflow.retries import with_retries
from twinlog.airflow.tasks.translation import translate
from twinlog.jsonable import Json


class TranslateGroupOperator(BaseOperator):  # type: ignore[misc]
    """Translate the committed offsets of a group of the source to the target, exactly.  Changes nothing.

        TranslateGroupOperator(task_id="billing", flow="A->B", group="billing", at="{{ data_interval_end }}")

    `at` is a time, UTC if it names no zone, at which the group stood there, as far as checkpoints are left; None means
    now.  `flow`, `group` and `at` are templates.  The XCom has `answers`, one per partition: `topic`, `partition`,
    `upstream_offset`, `downstream_offset` (the next to read on either side), `exact`.

    Raises UsageError for a flow that there is not or a text that is no time, and TerminalError `untranslated` if an
    offset has no translation, with the XCom of all the others.
    """

    template_fields = ("flow", "group", "at")
    operator_extra_links = (FlowPageLink(),)

    def __init__(self, *, flow: str, group: str, at: str | None = None, **arguments: Any) -> None:
        super().__init__(**with_retries(arguments))
        self.flow = flow
        self.group = group
        self.at = at

    def execute(self, context: Context) -> Json:
        """Translate, and return the answers."""
        from twinlog.client.group_positions import Groups

        return translate(self.flow, Groups((self.group,)), self.at, context)

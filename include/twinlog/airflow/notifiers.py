"""Tell people, over any channel, what is wrong with a flow and what to do: for callbacks of Dags of your own."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from twinlog.airflow.alerts import send_to_address
from twinlog.airflow.flows import dag_id_of, read_configuration
from twinlog.airflow.plugin.links import page_of
from twinlog.airflow.secrets import ask_airflow
from twinlog.airflow.words import in_airflow
from twinlog.airflow.xcom import MOST_CHARACTERS, short
from twinlog.config.flow.load import enabled_flow
from twinlog.errors import TwinlogError
from twinlog.visible import first_few, for_chats, visible

if TYPE_CHECKING:
    from twinlog.airflow.plugin.troubles import Trouble

log = logging.getLogger(__name__)

MOST_TROUBLES = 20
"""Lines of a message; the flow's page has all of them."""


class FlowNotifier(BaseNotifier):  # type: ignore[misc]
    """Tell what is wrong with a flow now, and what to do about each, worst first, as the flow's page does.

        on_failure_callback=[FlowNotifier(flow="A->B", channel=SlackNotifier(text="{{ twinlog_text }}"))]

    `channel` is any notifier of Airflow's providers; its templates have `twinlog_text`, `twinlog_subject` (one line)
    and `twinlog_flow` beside Airflow's own.  Without a channel the text is logged as an error, and sent to
    `twinlog.alert.url` if that is set, as twinlog's own alarms are.  The class itself, without a channel, is a callback
    for `DeadlineAlert`: `SyncCallback(FlowNotifier, kwargs={"flow": "A->B"})`.

    The clusters are asked when it is called.  If they do not answer, that is what it tells.
    """

    template_fields = ("flow",)

    def __init__(self, *, flow: str, channel: Callable[[Any], object] | None = None) -> None:
        super().__init__()
        self.flow = flow
        self.channel = channel

    def notify(self, context: Any) -> None:
        """Ask the clusters, and pass on what is found."""
        what = visible(short(what_happened(context), MOST_CHARACTERS))
        lines = [*body_of(troubles_now(self.flow)), page_of(self.flow)]
        text = "\n".join([what, *(visible(short(line, MOST_CHARACTERS)) for line in lines)])
        if self.channel is None:
            log.error("%s: %s", self.flow, text)
            send_to_address(self.flow, text, context)
            return
        subject = f"twinlog {self.flow}: {what}"
        told = {
            "twinlog_flow": self.flow,
            "twinlog_subject": for_chats(subject),
            "twinlog_text": for_chats(text),
        }
        # A notifier renders its templates once, in place; this one may be called again.
        copy.copy(self.channel)({**context, **told})


def troubles_now(flow_name: str) -> tuple[Trouble, ...]:
    """Ask both clusters what is wrong; a configuration that cannot be used is what is wrong, too."""
    from twinlog.airflow.plugin.reading import FlowReader
    from twinlog.airflow.plugin.troubles import Tone, Trouble, troubles_of

    try:
        flow = enabled_flow(read_configuration(ask_airflow), flow_name)
    except TwinlogError as error:
        return (Trouble(Tone.BAD, error.message, in_airflow(error.hint)),)
    except Exception as error:  # noqa: BLE001  a secrets back end may raise anything, and people must be told
        return (Trouble(Tone.BAD, f"The configuration cannot be read: {error!r}"),)
    dag_id = dag_id_of("replicate", flow.source.alias, flow.target.alias)
    return troubles_of(FlowReader(dag_id, flow).read(), time.time())


def what_happened(context: Any) -> str:
    """Say in one line which task or run this is about, and why it failed, if that is known.  Pure."""
    ti, run, error = context.get("ti"), context.get("dag_run"), context.get("exception")
    place = _said(run, "dag_id") + (f".{_said(ti, 'task_id')}" if ti is not None else "")
    why = (
        f": {in_airflow(str(error))}" if error else f": {reason}" if (reason := context.get("reason")) else ""
    )
    return f"{place or 'a Dag'} of run {_said(run, 'dag_run_id', 'run_id') or 'unknown'}{why}"


def body_of(troubles: tuple[Trouble, ...]) -> list[str]:
    """Return a line for each trouble, with what to do.  Pure."""
    if not troubles:
        return ["Both clusters and the ledger were read just now, and tell of nothing that is wrong."]
    lines = [f"{trouble.what}" + (f" -> {trouble.todo}" if trouble.todo else "") for trouble in troubles]
    return [f"- {line}" for line in first_few(lines, MOST_TROUBLES)]


def _said(of: Any, *names: str) -> str:
    """Return a field of a Dag run or a task, which a deadline gives as a mapping."""
    for name in names:
        value = of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)
        if value:
            return str(value)
    return ""

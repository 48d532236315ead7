"""The way home of a flow as a Spark application: what it copies and audits runs where the application runs."""

from __future__ import annotations

from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.recovery.failback import home
from twinlog.recovery.failback.failback import FailbackReport
from twinlog.recovery.failback.home import Approval
from twinlog.recovery.one_sided.read import opened_logs
from twinlog.recovery.procedure import Tail
from twinlog.recovery.reverse import Way
from twinlog.recovery.ways_home import way_home
from twinlog.spark.protection import require_safe_way
from twinlog.spark.request import FailbackRequest, OnStart
from twinlog.spark.steps.failover import opened_tools


def run(
    configuration: Configuration, flow: FlowSettings, request: FailbackRequest, master: str, on_start: OnStart
) -> FailbackReport:
    """Go home; a session is opened once there is something to copy."""
    back = way_home(configuration, flow)
    require_safe_way(master, (back.transforms,))  # it copies, too, between the same clusters
    tail = Tail(request.tail) if request.tail is not None else None
    approval = Approval(request.by, request.failover, request.last_turned_back, tail, request.driver)
    with (
        open_clusters(flow) as clusters,
        open_clusters(back) as reversed_ones,
        opened_logs(flow) as read,
        opened_tools(configuration, flow, master, on_start) as tools,
    ):
        return home.run_approved(Way(flow, clusters), Way(back, reversed_ones), approval, tools, read)

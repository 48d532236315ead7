"""The user's own rules as an Airflow task: skipped without a suite, failed if a critical rule is broken."""

from __future__ import annotations

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from twinlog.airflow.flows import DATA_JOB, configuration_path
from twinlog.airflow.operators.outcome import error_of
from twinlog.airflow.operators.spark_job import JobOperator
from twinlog.airflow.xcom import shortened
from twinlog.errors import TerminalError
from twinlog.jsonable import Json

WHOLE = "what jobs/check_data.py prints"


class DataRulesOperator(JobOperator):
    """Apply the rules to a sample, by spark-submit; Great Expectations needs a classic session.

    Its XCom is the DataRulesResult as JSON.  A failed task stops nothing: `twinlog.data.quality.stop` does that.
    """

    def execute(self, context: Context) -> Json:
        """Run the job.  Raises its error, as transient or terminal."""
        flow = self.settings()
        if flow.data_rules.suite is None:
            raise AirflowSkipException("twinlog.data.quality.suite names no suite")
        master = flow.copy.spark_master
        arguments = ["--config", str(configuration_path()), "--flow", self.flow]
        outcome = self.submit(DATA_JOB, "local[1]" if master.startswith("sc://") else master, arguments)
        error = error_of(outcome)
        if error is not None or outcome is None:
            raise error or TerminalError("the rules have no result")
        if not outcome["records"]:
            raise AirflowSkipException("there is no record to ask the rules of: nothing is known of them")
        if not outcome["success"]:
            context["ti"].xcom_push("return_value", shortened(outcome, WHOLE))
            raise broken(outcome)
        return shortened(outcome, WHOLE)


def broken(outcome: Json) -> TerminalError:
    """Describe the broken rules as an error."""
    against = [
        f"{topic['topic']}: {rule['rule']}: {rule['message']} {' '.join(rule['places'])}".rstrip()
        for topic in outcome["topics"]
        for rule in topic["rules"]
        if not rule["passed"]
    ]
    paused = f"paused: {', '.join(outcome['paused'])}" if outcome["paused"] else "the copy goes on"
    return TerminalError(f"rules of {outcome['suite']} do not hold: {'; '.join(against[:5])}", hint=paused)

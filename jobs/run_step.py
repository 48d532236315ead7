"""Run one step of a flow as a Spark application: copy, audit, failover, failback.

    spark-submit jobs/run_step.py '{"step": "copy", "config": "mm2.properties", "flow": "A->B"}'

The request is JSON without secrets (twinlog.spark.request says what else it may hold): everybody on the machine can
read a command line.  Prints one JSON line, `{"twinlog": ...}`, last: the result without contents of records, because a
scheduler keeps it in its logs, or the error.  A key in the environment's TWINLOG_RESULT_MARK takes the place of
`twinlog`: a submitter knows by it that no other line of the log is the result.  Exit codes are twinlog's: 0 done, 1 not
all is copied or equal, 2 wrong usage or configuration, 3 a cluster cannot be reached or refuses, or
the copy broke off.
"""

from __future__ import annotations

import json
import logging
import os
import sys

from twinlog.errors import TwinlogError, UsageError
from twinlog.garbage import collect_rarely
from twinlog.jsonable import Json
from twinlog.spark.application import run
from twinlog.spark.request import MARK, read_request
from twinlog.visible import VisibleFormatter


def main() -> int:
    """Run the step and print its result."""
    lines = logging.StreamHandler()
    lines.setFormatter(VisibleFormatter("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    collect_rarely()
    try:
        if len(sys.argv) != 2:
            raise UsageError("the job takes one argument, the request as JSON", hint="see jobs/run_step.py")
        result = run(read_request(sys.argv[1]))
    except TwinlogError as error:
        told: Json = {"error": {"kind": type(error).__name__, "code": error.code, "message": str(error)}}
        code = error.exit_code
    else:
        told, code = result.told, result.exit_code
    print(json.dumps({os.environ.get(MARK, "twinlog"): told}), flush=True)  # noqa: T201
    return int(code)


if __name__ == "__main__":
    sys.exit(main())

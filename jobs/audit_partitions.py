"""Compare the copy of one flow with its source: the step `audit`, as a Spark application.

    spark-submit jobs/audit_partitions.py --config mm2.properties --flow 'A->B' [--mode full]

Prints one JSON line, `{"twinlog": ...}`, last: the result, or the error.  It says where differences are, but not the
contents of records, because a scheduler keeps it in its logs.  Exit codes are twinlog's: 0 equal, 1 not equal or
undecided, 2 wrong usage or configuration, 3 a cluster cannot be reached or refuses.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from twinlog.audit.plan import AuditMode, AuditRequest
from twinlog.errors import ExitCode, TwinlogError
from twinlog.garbage import collect_rarely
from twinlog.jsonable import to_json
from twinlog.spark.application import audit


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="mm2.properties")
    parser.add_argument("--flow", required=True, help="'A->B'")
    parser.add_argument("--mode", type=AuditMode, choices=list(AuditMode), default=AuditMode.INCREMENTAL)
    parser.add_argument("--share", type=float, default=1.0, help="of a sample, 0 to 1")
    parser.add_argument("--seed", type=int, default=0, help="which sample")
    parser.add_argument("--topics", default="", help="only these source topics, comma separated")
    return parser.parse_args()


def main() -> int:
    """Audit and print the result."""
    collect_rarely()
    given = arguments()
    topics = frozenset(filter(None, given.topics.split(","))) or None
    try:
        result = audit(given.config, given.flow, AuditRequest(given.mode, given.share, given.seed, topics))
    except TwinlogError as error:
        outcome = {"error": {"kind": type(error).__name__, "code": error.code, "message": str(error)}}
        print(json.dumps({"twinlog": outcome}), flush=True)  # noqa: T201
        return int(error.exit_code)
    print(json.dumps({"twinlog": to_json(result.without_contents())}), flush=True)  # noqa: T201
    return int(ExitCode.DONE if result.equal else ExitCode.SAYS_NO)


if __name__ == "__main__":
    sys.exit(main())

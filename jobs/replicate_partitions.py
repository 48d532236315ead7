"""Copy the pending records of one flow: the step `copy`, as a Spark application.

    spark-submit jobs/replicate_partitions.py --config mm2.properties --flow 'A->B'

Prints one JSON line, `{"twinlog": ...}`, last: the result, or the error.  Exit codes are twinlog's: 0 copied, 1 some
partitions stopped, 2 wrong usage or configuration, 3 a cluster cannot be reached or refuses, or the copy broke off.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import uuid
from pathlib import Path

from twinlog.errors import ExitCode, TwinlogError
from twinlog.garbage import collect_rarely
from twinlog.jsonable import to_json
from twinlog.spark.application import replicate


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="mm2.properties")
    parser.add_argument("--flow", required=True, help="'A->B'")
    parser.add_argument("--run-id", default=uuid.uuid4().hex, help="names this run in the ledger")
    parser.add_argument("--until-ms", type=int, help="copy records before this time only (epoch ms)")
    parser.add_argument("--topics", default="", help="only these source topics, comma separated")
    parser.add_argument("--follow-seconds", type=float, help="stay, and copy what arrives, for so long")
    parser.add_argument("--gives-way-to", default="", help="runs that may take over: how their ids begin")
    return parser.parse_args()


def main() -> int:
    """Copy and print the result."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    collect_rarely()
    given = arguments()
    topics = frozenset(filter(None, given.topics.split(","))) or None
    try:
        result = replicate(
            given.config,
            given.flow,
            given.run_id,
            until_ms=given.until_ms,
            topics=topics,
            follow_seconds=given.follow_seconds,
            gives_way_to=given.gives_way_to,
        )
    except TwinlogError as error:
        outcome = {"error": {"kind": type(error).__name__, "code": error.code, "message": str(error)}}
        print(json.dumps({"twinlog": outcome}), flush=True)  # noqa: T201
        return int(error.exit_code)
    print(json.dumps({"twinlog": to_json(result)}), flush=True)  # noqa: T201
    if result.broke_off:
        return int(ExitCode.CLUSTER)
    return int(ExitCode.SAYS_NO if result.state == "failed" else ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main())

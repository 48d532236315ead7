"""Apply the user's own rules to a flow's data: the step `data_rules`, as a Spark application.

    spark-submit jobs/check_data.py --config mm2.properties --flow 'A->B'

Prints one JSON line, `{"twinlog": ...}`, last: the result, or the error.  Exit codes are twinlog's: 0 all critical
rules hold, 1 one is broken, 2 wrong usage or configuration, 3 a cluster cannot be reached or refuses.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from twinlog.errors import ExitCode, TwinlogError
from twinlog.jsonable import to_json
from twinlog.spark.rules import check_data


def main() -> int:
    """Apply the rules and print the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, required=True, help="mm2.properties")
    parser.add_argument("--flow", required=True, help="'A->B'")
    given = parser.parse_args()
    try:
        result = check_data(given.config, given.flow)
    except TwinlogError as error:
        outcome = {"error": {"kind": type(error).__name__, "code": error.code, "message": str(error)}}
        print(json.dumps({"twinlog": outcome}), flush=True)  # noqa: T201
        return int(error.exit_code)
    print(json.dumps({"twinlog": to_json(result)}), flush=True)  # noqa: T201
    return int(ExitCode.DONE if result.success else ExitCode.SAYS_NO)


if __name__ == "__main__":
    sys.exit(main())
